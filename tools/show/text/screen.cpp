// SPDX-License-Identifier: Apache-2.0
#include "show/text/screen.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/command/columns.hpp"
#include "core/text.hpp"
#include "show/model/shape.hpp"
#include "show/text/explain.hpp"
#include "show/text/labels.hpp"
#include "show/text/words.hpp"

namespace ccoll::show {

namespace {

/// More rows than this do not fit a screen.
constexpr std::size_t kMostRows = 16;
/// More elements of a block than this are not shown as numbers.
constexpr std::size_t kMostNumbersShown = 4;

/// The first and the last of `count`, `most` in all.
std::vector<std::uint32_t> sample(std::uint32_t count, std::size_t most) {
  std::vector<std::uint32_t> numbers;
  const std::size_t shown = std::min<std::size_t>(count, most);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool from_end = i >= (shown + 1) / 2;
    numbers.push_back(static_cast<std::uint32_t>(from_end ? count - shown + i : i));
  }
  return numbers;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string without_end_spaces(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string bar(std::size_t done, std::size_t all, std::size_t most) {
  const std::size_t length = std::min(all, most);
  const std::size_t filled = all == 0 ? 0 : done * length / all;
  return "[" + std::string(filled, '#') + std::string(length - filled, '.') + "]";
}

std::size_t digits_of(std::uint64_t number) { return grouped(number).size(); }

}  // namespace

const Screen::Way Screen::kWays[] = {
    {},
    {.is_tight = true},
    {.is_tight = true, .ranks = RankStyle::number},
    {.is_tight = true, .ranks = RankStyle::number, .has_block_word = false},
    {.is_tight = true, .ranks = RankStyle::number, .has_block_word = false, .has_tallies = false},
    {.is_tight = true,
     .ranks = RankStyle::number,
     .has_block_word = false,
     .has_tallies = false,
     .has_moves = false},
};

Screen::Screen(const Picture& picture, const Style& style)
    : picture_(picture),
      style_(style),
      is_matrix_(picture.rounds.problem.kind == Kind::all_to_all),
      tables_(tables_of(picture.rounds)),
      arrivals_(std::size_t{picture.rounds.problem.size} * picture.rounds.blocks) {
  note_arrivals();
  choose_layout();
}

void Screen::note_arrivals() {
  const Rounds& rounds = picture_.rounds;
  Board board(rounds);
  while (board.advance()) {
    for (const Change& change : rounds.rounds[board.round() - 1].changes) {
      if (change.holding.place != Place::output) continue;
      arrivals_[std::size_t{change.rank} * rounds.blocks + change.holding.block] = board.round();
    }
  }
  for (Rank rank = 0; rank < rounds.problem.size; ++rank) {
    const Tally& tally = board.tally(rank);
    most_.messages = std::max(most_.messages, tally.messages);
    most_.elems_sent = std::max(most_.elems_sent, tally.elems_sent);
    most_.elems_reduced = std::max(most_.elems_reduced, tally.elems_reduced);
  }
}

bool Screen::fits(const Way& way) {
  way_ = way;
  return measure() <= style_.width;
}

/// If it is too wide, it drops first the columns beside the cells, then numbers unless requested.
/// Then it drops the names of the contributions, which are the point of a picture, and last the
/// blocks.
void Screen::choose_layout() {
  const Rounds& rounds = picture_.rounds;
  ranks_ = style_.only_rank ? std::vector<Rank>{*style_.only_rank}
                            : sample(rounds.problem.size, kMostRows);
  blocks_ = sample(rounds.blocks, rounds.blocks);
  const bool few = block_elems(rounds.problem, rounds.blocks, 0) <= kMostNumbersShown &&
                   rounds.problem.size <= kMostNamed;
  const bool has_numbers = style_.values.value_or(few) && rounds.problem.kind != Kind::barrier;
  const bool may_lack_numbers = !has_numbers || !style_.values;
  for (const bool named : {true, false}) {
    named_ = named;
    if (named && rounds.problem.size > kMostNamed) continue;
    for (const bool numbers : {has_numbers, false}) {
      numbers_ = numbers;
      if (!numbers && !may_lack_numbers) continue;
      if (std::ranges::any_of(kWays, [&](const Way& way) { return fits(way); })) return;
    }
  }
  numbers_ = has_numbers && style_.values.has_value();
  for (const Way& way : kWays) {
    if (way.has_tallies) continue;
    way_ = way;
    blocks_ = sample(rounds.blocks, rounds.blocks);
    const std::size_t others = measure() - blocks_.size() * cell_width_;
    const std::size_t room = style_.width > others ? style_.width - others : 0;
    blocks_ = sample(rounds.blocks, std::max<std::size_t>(room / cell_width_, 2));
    if (measure() <= style_.width) return;
  }
}

std::string Screen::head_of(std::uint32_t block) const {
  const std::string name = is_matrix_ ? fmt::format("{}", block) : block_name(block);
  if (!way_.has_block_word) return name;
  return fmt::format("{} {}", is_matrix_ ? "from" : "block", name);
}

std::size_t Screen::measure() {
  const std::size_t gap = way_.is_tight ? 1 : 2;
  const std::size_t rounds = picture_.rounds.rounds.size();
  cell_width_ = head_of(picture_.rounds.blocks - 1).size();
  sent_width_ = std::string_view("sent").size();
  received_width_ = std::string_view("received").size();
  name_width_ = style_.only_rank ? fmt::format("round {}", rounds).size()
                                 : fmt::format("rank {}", ranks_.back()).size();
  Board board(picture_.rounds);
  do {
    for (const Rank rank : ranks_) {
      const std::vector<Event> events = events_of(board, rank);
      for (const std::uint32_t block : blocks_) {
        const Cell shown = cell(board, events, rank, block);
        cell_width_ = std::max({cell_width_, shown.text.size(), shown.numbers.size()});
      }
      if (board.round() == 0) continue;
      const Round& round = picture_.rounds.rounds[board.round() - 1];
      sent_width_ =
          std::max(sent_width_, sent_text(picture_.rounds, round, rank, way_.ranks).size());
      received_width_ =
          std::max(received_width_, received_text(picture_.rounds, round, rank, way_.ranks).size());
    }
  } while (board.advance());
  cell_width_ += gap;
  name_width_ += gap;
  sent_width_ += gap;
  messages_width_ = std::max<std::size_t>(digits_of(most_.messages), 4) + gap;
  elems_width_ = std::max<std::size_t>(digits_of(most_.elems_sent), 5) + gap;
  return name_width_ + blocks_.size() * cell_width_ +
         (way_.has_moves ? sent_width_ + received_width_ : 0) +
         (way_.has_tallies ? messages_width_ + elems_width_ : 0);
}

std::vector<Screen::Event> Screen::events_of(const Board& board, Rank rank) const {
  std::vector<Event> events;
  if (board.round() == 0) return events;
  for (const Message& message : picture_.rounds.rounds[board.round() - 1].messages) {
    for (const MessageBlock& piece : message.pieces) {
      if (message.from.rank == rank) events.push_back({piece.block, false, false});
      if (message.to != rank || !message.received) continue;
      events.push_back({piece.to_block, true, message.reduces});
    }
  }
  return events;
}

Screen::Cell Screen::cell(const Board& board, const std::vector<Event>& events, Rank rank,
                          std::uint32_t block) const {
  if (is_matrix_) return arrival_cell(board, rank, block);
  const auto [content, done] =
      tables_[board.round()][std::size_t{rank} * picture_.rounds.blocks + block];
  std::string marks;
  std::optional<Tone> tone;
  if (content == kSpoilt) tone = kFault;
  if (done) tone = kComplete;
  for (const Event& event : events) {
    if (event.block != block) continue;
    if (event.received && !marks.starts_with('<')) marks.insert(0, "<");
    if (!event.received && !marks.ends_with('>')) marks += ">";
    if (event.received) tone = event.reduces ? kCombined : kCopied;
  }
  if (marks == ">" && !tone) tone = kSending;
  if (content == kNothing) return {".", "", {}};
  std::string label = label_of(picture_.rounds, content, named_);
  const bool is_known = content < picture_.rounds.contents.size();
  if (is_known && picture_.rounds.contents[content].block != block) {
    label = fmt::format("{}:{}", block_name(picture_.rounds.contents[content].block), label);
  }
  return {marks.empty() ? label : fmt::format("{} {}", label, marks), numbers_text(content), tone};
}

Screen::Cell Screen::arrival_cell(const Board& board, Rank rank, std::uint32_t block) const {
  const std::uint32_t content = board.content_at(rank, Place::output, block);
  if (content == kNothing) return {".", "", {}};
  const std::size_t arrival = arrivals_[std::size_t{rank} * picture_.rounds.blocks + block];
  const bool right = is_result(picture_.rounds, rank, block, content);
  const std::string text = arrival == board.round() ? "*" : fmt::format("{}", arrival);
  return {right ? text : text + "!", numbers_text(content),
          !right                     ? kFault
          : arrival == board.round() ? kCopied
                                     : kComplete};
}

std::string Screen::numbers_text(std::uint32_t content) const {
  if (!numbers_ || content >= picture_.numbers.size()) return {};
  const Numbers& numbers = picture_.numbers[content];
  std::string text;
  for (std::size_t i = 0; i < numbers.size() && i < kMostNumbersShown; ++i) {
    text += fmt::format("{}{}", i > 0 ? " " : "", numbers[i]);
  }
  if (numbers.size() > kMostNumbersShown) text += " ..";
  return text;
}

std::string Screen::toned(const std::string& text, std::optional<Tone> tone) const {
  return style_.colour && tone ? painted(text, *tone) : text;
}

std::string Screen::lettered(const std::string& text) const {
  for (const std::uint32_t block : blocks_) {
    const std::string name = block_name(block);
    if (is_matrix_ || !text.starts_with(name + " ")) continue;
    return toned(name, tone_of_block(block)) + text.substr(name.size());
  }
  return text;
}

std::string Screen::tallies_text(std::string_view messages, std::string_view elems) const {
  if (!way_.has_tallies) return {};
  return fmt::format("{:>{}}{:>{}}", messages, messages_width_, elems, elems_width_);
}

std::string Screen::heading() const {
  std::string text(name_width_, ' ');
  for (const std::uint32_t block : blocks_) {
    const std::string head = head_of(block);
    text += toned(head, is_matrix_ ? std::nullopt : std::optional(tone_of_block(block))) +
            std::string(cell_width_ - head.size(), ' ');
  }
  if (way_.has_moves) text += padded("sent", sent_width_) + padded("received", received_width_);
  return without_end_spaces(text + tallies_text("msgs", "elems")) + "\n";
}

std::string Screen::row(const Board& board, Rank rank, const std::string& name) const {
  const std::vector<Event> events = events_of(board, rank);
  std::string line = padded(name, name_width_);
  std::string below(name_width_, ' ');
  for (const std::uint32_t block : blocks_) {
    const Cell shown = cell(board, events, rank, block);
    line += toned(shown.text, shown.tone);
    line.append(cell_width_ - std::min(shown.text.size(), cell_width_), ' ');
    below += padded(shown.numbers, cell_width_);
  }
  const bool before = board.round() == 0;
  const Rounds& rounds = picture_.rounds;
  const Round none;
  const Round& round = before ? none : rounds.rounds[board.round() - 1];
  if (way_.has_moves) {
    for (const auto& [text, width] :
         {std::pair(sent_text(rounds, round, rank, way_.ranks), sent_width_),
          std::pair(received_text(rounds, round, rank, way_.ranks), received_width_)}) {
      line += lettered(text) + std::string(width - std::min(text.size(), width), ' ');
    }
  }
  line += tallies_text(grouped(board.tally(rank).messages), grouped(board.tally(rank).elems_sent));
  line = without_end_spaces(std::move(line)) + "\n";
  below = without_end_spaces(std::move(below));
  if (!below.empty()) line += below + "\n";
  return line;
}

std::string Screen::table(const Board& board) const {
  std::string text = heading();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (i > 0 && ranks_[i] > ranks_[i - 1] + 1) text += "...\n";
    text += row(board, ranks_[i], fmt::format("rank {}", ranks_[i]));
  }
  return text;
}

std::string Screen::history() const {
  std::string text = heading();
  Board board(picture_.rounds);
  do {
    text += row(board, *style_.only_rank,
                board.round() == 0 ? "before" : fmt::format("round {}", board.round()));
  } while (board.advance());
  return text;
}

std::string Screen::so_far(const Board& board) const {
  Tally busiest;
  for (Rank rank = 0; rank < picture_.rounds.problem.size; ++rank) {
    busiest.messages = std::max(busiest.messages, board.tally(rank).messages);
    busiest.elems_sent = std::max(busiest.elems_sent, board.tally(rank).elems_sent);
    busiest.elems_reduced = std::max(busiest.elems_reduced, board.tally(rank).elems_reduced);
  }
  const std::size_t bytes = picture_.call.operation->has_data ? size_of(picture_.call.type) : 1;
  std::string text = fmt::format(
      "busiest rank so far: {} of {} messages and {} of {} elements ({} of {} bytes) sent",
      grouped(busiest.messages), grouped(most_.messages), grouped(busiest.elems_sent),
      grouped(most_.elems_sent), grouped(busiest.elems_sent * bytes),
      grouped(most_.elems_sent * bytes));
  if (most_.elems_reduced > 0) {
    text += fmt::format(", {} of {} combined", grouped(busiest.elems_reduced),
                        grouped(most_.elems_reduced));
  }
  return bench::wrapped(text, style_.width);
}

std::string Screen::round(const Board& board) const {
  const std::size_t rounds = picture_.rounds.rounds.size();
  std::string text = board.round() == 0 ? std::string("before the first round")
                                        : fmt::format("round {} of {}", board.round(), rounds);
  text += fmt::format("  {}", bar(board.round(), rounds, style_.width / 4));
  std::string state = phase_text(picture_, board.round());
  if (!state.empty()) state += "  ";
  const Progress progress = progress_of(picture_.rounds, board);
  state += fmt::format("{} of {} results", progress.complete, progress.all);
  text += (text.size() + 2 + state.size() <= style_.width ? "  " : "\n") + state + "\n";
  text += bench::wrapped(round_sentence(picture_, board), style_.width);
  return text + "\n" + table(board) + so_far(board);
}

std::string Screen::title() const {
  return bench::wrapped(call_text(picture_.call) +
                            (picture_.report.ok() ? ": proven" : ": " + verdict_text(picture_)),
                        style_.width);
}

std::string Screen::legend() const {
  const bool combines = reduces(picture_.rounds.problem.kind);
  std::string text =
      is_matrix_ ? "A rank's row: in which round the block from each rank came; . not yet, * now; "
                   "0>2: rank 0's block for rank 2"
      : combines ? "Blocks have letters, ranks have numbers. In the table: whose contributions are "
                   "in a block; < received, > sent"
                 : "Blocks have letters, ranks have numbers. In the table: whose data is there; "
                   "< received, > sent, . nothing yet";
  if (!is_matrix_ && !named_) {
    text += fmt::format("; 3/{}: those of three ranks", picture_.rounds.problem.size);
  }
  if (numbers_) text += fmt::format("; below it its elements ({})", to_string(picture_.call.type));
  return bench::wrapped(text + ".", style_.width);
}

std::string Screen::what_is_left_out() const {
  const Rounds& rounds = picture_.rounds;
  std::string text;
  if (ranks_.size() < rounds.problem.size && !style_.only_rank) {
    text += fmt::format("Shown are {} of {} ranks: the first and the last.\n", ranks_.size(),
                        rounds.problem.size);
  }
  if (blocks_.size() < rounds.blocks) {
    text += fmt::format("Shown are {} of {} blocks: the first and the last.\n", blocks_.size(),
                        rounds.blocks);
  }
  if (!way_.has_tallies) {
    text += bench::wrapped(
        fmt::format("No room for {}; --width N makes some.",
                    way_.has_moves ? "how much each rank has sent so far"
                                   : "what each rank sends, receives and has sent so far"),
        style_.width);
  }
  return text;
}

std::string Screen::introduction() const {
  const Rounds& rounds = picture_.rounds;
  std::string text = title();
  if (!picture_.broken.empty()) {
    text += bench::wrapped("Broken on purpose: " + picture_.broken + ".", style_.width);
  }
  const std::vector<Tree> trees = trees_of(rounds);
  if (!trees.empty()) {
    text += "\n" + trees_text(trees);
    const CatalogueEntry* entry = picture_.call.entry;
    if (entry != nullptr) text += bench::wrapped(tree_rule(entry->algorithm), style_.width);
    text += "\n";
  }
  text += legend() + what_is_left_out();
  const std::uint64_t depth = rounds.rounds.empty() ? 0 : rounds.rounds.back().depth;
  if (depth < rounds.rounds.size() && depth > 0) {
    text += bench::wrapped(
        fmt::format("The longest chain of messages that wait for each other is {}; there are {} "
                    "rounds because a rank sends some of them one after another.",
                    depth, rounds.rounds.size()),
        style_.width);
  }
  return text;
}

std::string Screen::conclusion() const {
  std::string text = bench::wrapped(verdict_text(picture_), style_.width);
  text += explanation(picture_, style_.width);
  if (!picture_.theory) return text;
  const Load& busiest = picture_.theory->busiest;
  const bool same = most_.messages == busiest.messages && most_.elems_sent == busiest.elems_sent &&
                    most_.elems_reduced == busiest.elems_reduced;
  return text +
         bench::wrapped(
             fmt::format("the formulas say {} messages, {} elements sent and {} combined: {}",
                         grouped(busiest.messages), grouped(busiest.elems_sent),
                         grouped(busiest.elems_reduced), same ? "so it is" : "it is not so"),
             style_.width);
}

}  // namespace ccoll::show
