// SPDX-License-Identifier: Apache-2.0
#include "show/text/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "core/text.hpp"
#include "show/text/labels.hpp"

namespace ccoll::show {

namespace {

enum class Does { combines, copies, both, nothing };

Does does(const Round& round) {
  const auto reduces = [](const Message& message) { return message.reduces; };
  const auto count = std::ranges::count_if(round.messages, reduces);
  if (round.messages.empty()) return Does::nothing;
  if (count == 0) return Does::copies;
  return static_cast<std::size_t>(count) == round.messages.size() ? Does::combines : Does::both;
}

/// The distance from each sender to its receiver, if it is the same for all messages.
std::optional<Rank> common_distance(const Round& round, Rank size) {
  std::set<Rank> distances;
  for (const Message& message : round.messages) {
    distances.insert((message.to + size - message.from.rank) % size);
  }
  return distances.size() == 1 ? std::optional(*distances.begin()) : std::nullopt;
}

/// The bit in which each sender's number differs from its receiver's, if it is the same for all.
std::optional<int> common_bit(const Round& round) {
  std::set<Rank> differences;
  for (const Message& message : round.messages) {
    differences.insert(message.to ^ message.from.rank);
  }
  if (differences.size() != 1 || !std::has_single_bit(*differences.begin())) return std::nullopt;
  return std::countr_zero(*differences.begin());
}

std::vector<std::uint32_t> blocks_of(const Message& message) {
  std::vector<std::uint32_t> blocks;
  for (const MessageBlock& piece : message.pieces) blocks.push_back(piece.block);
  return blocks;
}

/// "block A", "blocks A-C".
std::string named_blocks(const Message& message) {
  return fmt::format("block{} {}", message.pieces.size() == 1 ? "" : "s",
                     blocks_text(blocks_of(message)));
}

/// With names if they are the same for all; blocks of an all_to_all have none.
std::string blocks_each(const Round& round, bool has_names) {
  const std::size_t first = round.messages.front().pieces.size();
  const auto is_same = [&](const Message& message) {
    return blocks_of(message) == blocks_of(round.messages.front());
  };
  if (has_names && std::ranges::all_of(round.messages, is_same))
    return named_blocks(round.messages.front());
  for (const Message& message : round.messages) {
    if (message.pieces.size() != first) return "some blocks";
  }
  return first == 1 ? "one block" : fmt::format("{} blocks", first);
}

/// Each sender with its blocks and receivers; none if that takes too many words.
std::optional<std::string> pairs_text(const Round& round) {
  constexpr std::size_t kMostPairs = 4;
  std::map<std::pair<Rank, std::string>, std::vector<std::uint32_t>> receivers;
  for (const Message& message : round.messages)
    receivers[{message.from.rank, named_blocks(message)}].push_back(message.to);
  if (receivers.size() > kMostPairs) return std::nullopt;
  std::vector<std::string> pairs;
  for (auto& [what, ranks] : receivers) {
    std::ranges::sort(ranks);
    if (ranks.size() > 8) return std::nullopt;
    pairs.push_back(fmt::format("{} {} sends {} to {}", pairs.empty() ? "Rank" : "rank", what.first,
                                what.second, list_ranks(ranks)));
  }
  return joined(pairs) + ".";
}

std::string who_sends(const Round& round, Rank size, bool has_names) {
  std::set<Rank> senders;
  std::set<Rank> receivers;
  for (const Message& message : round.messages) {
    senders.insert(message.from.rank);
    receivers.insert(message.to);
  }
  const std::string blocks = blocks_each(round, has_names);
  const bool all = senders.size() == size && round.messages.size() == size;
  if (const auto bit = common_bit(round); all && bit && size > 2) {
    return fmt::format("Each rank exchanges {} with the rank whose number differs in bit {}.",
                       blocks, *bit);
  }
  if (const auto distance = common_distance(round, size); all && distance) {
    const std::string to = *distance == 1          ? "the next rank"
                           : *distance + 1 == size ? "the rank before it"
                                                   : fmt::format("the rank {} ahead", *distance);
    return fmt::format("Each rank sends {} to {}.", blocks, to);
  }
  if (round.messages.size() == std::size_t{size} * (size - 1)) {
    return fmt::format("Each rank sends {} to every other rank.", blocks);
  }
  const bool is_paired = has_names && senders.size() > 1 && receivers.size() > 1;
  if (const auto pairs = is_paired ? pairs_text(round) : std::nullopt) return *pairs;
  const auto list = [](const std::set<Rank>& ranks) {
    const std::vector<Rank> some(ranks.begin(), ranks.end());
    return some.size() > 8 ? fmt::format("{} ranks", some.size()) : list_ranks(some);
  };
  std::string subject = list(senders);
  subject.front() = static_cast<char>(subject.front() == 'r' ? 'R' : subject.front());
  return fmt::format("{} {} {} to {}.", subject, senders.size() == 1 ? "sends" : "send", blocks,
                     list(receivers));
}

std::string what_becomes(const Round& round) {
  switch (does(round)) {
    case Does::combines:
      return " What arrives is combined with the receiver's own data.";
    case Does::copies:
      return " What arrives is kept as it is.";
    case Does::both:
      return " Some of what arrives is combined with the receiver's own data, some kept as it is.";
    case Does::nothing:
      break;
  }
  return {};
}

/// Whether a step stores something and neither sends nor receives.
bool copies_within(const Round& round) {
  return std::ranges::any_of(round.steps, [&](const StepName& step) {
    return std::ranges::none_of(round.messages, [&](const Message& message) {
      return message.from == step || (message.received && message.by == step);
    });
  });
}

/// The ranks that have received something for a step that waits for more.
std::string who_waits(const Round& round) {
  std::set<std::uint32_t> waiting;
  for (const Message& message : round.messages) {
    const bool has_run = std::ranges::find(round.steps, message.by) != round.steps.end();
    if (message.received && !has_run) waiting.insert(message.to);
  }
  if (waiting.empty()) return {};
  std::string who = waiting.size() > 8 ? fmt::format("{} ranks", waiting.size())
                                       : list_ranks({waiting.begin(), waiting.end()});
  who.front() = static_cast<char>(who.front() == 'r' ? 'R' : who.front());
  return fmt::format(" {} {} for another message before {} on.", who,
                     waiting.size() == 1 ? "waits" : "wait",
                     waiting.size() == 1 ? "it goes" : "they go");
}

std::string state_before(const Picture& picture) {
  const Rounds& rounds = picture.rounds;
  if (rounds.problem.kind == Kind::barrier) return "Every rank has come, and no rank knows it.";
  if (rounds.inputs.empty()) return "There are no elements: nothing will be sent.";
  std::set<Rank> ranks;
  for (const Change& change : rounds.inputs) ranks.insert(change.rank);
  return ranks.size() == 1 ? fmt::format("Only rank {} has data.", *ranks.begin())
                           : "Every rank has its own data.";
}

std::string counted(std::uint64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

}  // namespace

std::string round_sentence(const Picture& picture, const Board& after) {
  const Rounds& rounds = picture.rounds;
  if (after.round() == 0) return state_before(picture);
  const Round& round = rounds.rounds[after.round() - 1];
  if (round.messages.empty()) return "Data is copied within its rank.";
  std::string text =
      who_sends(round, rounds.problem.size, rounds.problem.kind != Kind::all_to_all) +
      what_becomes(round);
  text += who_waits(round);
  if (copies_within(round)) text += " Data that stays is copied within its rank.";
  return text;
}

std::string phase_text(const Picture& picture, std::size_t number) {
  const std::vector<Round>& rounds = picture.rounds.rounds;
  if (number == 0 || !reduces(picture.rounds.problem.kind)) return {};
  const std::size_t at = number - 1;
  const Does what = does(rounds[at]);
  std::size_t begin = at;
  while (begin > 0 && does(rounds[begin - 1]) == what) --begin;
  std::size_t end = at + 1;
  while (end < rounds.size() && does(rounds[end]) == what) ++end;
  const std::string_view name = what == Does::combines ? "combining"
                                : what == Does::copies ? "spreading"
                                : what == Does::both   ? "combining and spreading"
                                                       : "copying";
  return fmt::format("{} {}/{}", name, number - begin, end - begin);
}

Progress progress_of(const Rounds& rounds, const Board& board) {
  Progress progress;
  for (Rank rank = 0; rank < rounds.problem.size; ++rank) {
    const Problem view = view_of(rounds.problem, rank);
    for (std::uint32_t block = 0; block < rounds.blocks; ++block) {
      if (!has_result(rounds.problem, rank, block)) continue;
      if (block_elems(view, rounds.blocks, block, Buffer::output) == 0) continue;
      ++progress.all;
      const std::uint32_t held = board.content_at(rank, Place::output, block);
      progress.complete += is_result(rounds, rank, block, held) ? 1 : 0;
    }
  }
  return progress;
}

std::string verdict_text(const Picture& picture) {
  const Report& report = picture.report;
  if (!report.ok()) return fmt::format("WRONG ({})", to_string(report.findings.front().kind));
  const Problem& problem = picture.rounds.problem;
  std::string text = "proven: ";
  text += problem.kind == Kind::barrier ? "every rank hears of every other"
          : reduces(problem.kind)       ? "every result holds each rank's contribution exactly once"
                                        : "every result is a copy of the right block";
  return text + fmt::format(", nothing waits for ever with {} in each link, no two accesses race",
                            counted(report.slots_needed, "slot"));
}

}  // namespace ccoll::show
