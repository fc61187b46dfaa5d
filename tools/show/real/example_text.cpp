// SPDX-License-Identifier: Apache-2.0

/// Prints examples.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/command/columns.hpp"
#include "core/text.hpp"
#include "show/real/chain.hpp"
#include "show/real/example.hpp"
#include "show/text/numbers.hpp"

namespace ccoll::show {

namespace {

/// Selects one of a rank's buffers.
enum class Side { before, after };

/// Whether a rank's numbers are meaningful on that side: a reduce has a result only at its root.
bool has_numbers(const Example& example, std::size_t number, Side side) {
  return side == Side::before || example.operation->kind != Kind::reduce ||
         number == static_cast<std::size_t>(example.arguments.root);
}

/// The rows of a matrix whose columns are the blocks; none: blocks are consecutive.
std::optional<std::uint64_t> rows_of(const Party& party) {
  return party.splits.empty() ? std::nullopt : party.splits.front().rows();
}

/// The numbers of each buffer in a rank's list, which usually has one, or of each row of its
/// matrix.
std::vector<Numbers> lists_of(const Example& example, const Party& party, std::size_t number,
                              Side side) {
  const DataType type = example.arguments.type;
  const std::uint32_t rank = party.ranks[number];
  const auto& bytes = side == Side::before ? example.before[rank] : example.after[rank];
  std::vector<Numbers> lists;
  std::uint64_t first = 0;
  for (const Lengths& buffer : buffers_of(example, party, number)) {
    const std::uint64_t elems = side == Side::before                 ? buffer.input
                                : has_numbers(example, number, side) ? buffer.output
                                                                     : 0;
    const auto rows = rows_of(party);
    const std::uint64_t row = elems / rows.value_or(1);
    if (!rows) lists.push_back(texts_of(type, bytes, first, elems));
    for (std::uint64_t at = 0; rows && at < elems; at += row)
      lists.push_back(texts_of(type, bytes, at, row));
    first += elems;
  }
  return lists;
}

/// Fills up a column's shorter numbers; a blank would be a place where a line may be shortened.
constexpr char kFill = '_';

/// A line for each row of a matrix, with the numbers of a column below one another.
std::vector<std::string> matrix_lines(std::vector<Numbers> rows) {
  if (rows.empty()) return {"-"};
  for (std::size_t column = 0; column < rows.front().size(); ++column) {
    std::size_t width = 0;
    for (const Numbers& row : rows) width = std::max(width, row[column].size());
    for (Numbers& row : rows) row[column].insert(0, width - row[column].size(), kFill);
  }
  std::vector<std::string> lines;
  for (const Numbers& row : rows) lines.push_back(joined(row, " "));
  return lines;
}

/// "0 1 2"; for several buffers "0 1 | 2", and for a matrix a line for each row.
std::vector<std::string> buffer_lines(const Example& example, const Party& party,
                                      std::size_t number, Side side) {
  if (rows_of(party)) return matrix_lines(lists_of(example, party, number, side));
  std::vector<std::string> texts;
  for (const Numbers& numbers : lists_of(example, party, number, side))
    texts.push_back(numbers.empty() ? "-" : joined(numbers, " "));
  return {joined(texts, " | ")};
}

/// "1,0,2 int32"; of columns "2 columns of 5 int32 in each block", or "1,0,2 columns of 5 int32".
std::string splits_text(const Splits& splits, DataType type) {
  if (!splits.rows()) return fmt::format("{} {}", splits.text(), to_string(type));
  const auto each = splits.same_for_all();
  return fmt::format("{} column{} of {} {}{}", each ? std::to_string(*each) : splits.text(),
                     each == 1 ? "" : "s", *splits.rows(), to_string(type),
                     each ? " in each block" : "");
}

/// "all_reduce of 4 int32, sum, by ring, 4 ranks over inproc".
std::string title(const Example& example) {
  const bench::Operation& operation = *example.operation;
  const bench::Arguments& call = example.arguments;
  const Party& first = example.parties.front();
  std::string text(operation.name);
  if (!first.splits.empty() && !example.is_parted)
    text += " of " + splits_text(first.splits.front(), call.type);
  else if (!first.splits.empty())
    text += fmt::format(" of {}", to_string(call.type));
  else if (!example.buffers.empty())
    text += fmt::format(" of buffers of {} {}{}", fmt::join(example.buffers, ", "),
                        to_string(call.type), operation.over_blocks ? " in each block" : "");
  else if (operation.has_data)
    text += fmt::format(" of {} {}{}", call.count, to_string(call.type),
                        operation.over_blocks ? " in each block" : "");
  if (operation.reduces) text += fmt::format(", {}", to_string(call.op));
  if (operation.rooted) text += fmt::format(", root {}", call.root);
  if (!example.is_parted && !first.algorithm.empty())
    text += fmt::format(", by {}", first.algorithm);
  return text + fmt::format(", {} rank{} over {}", example.ranks, example.ranks == 1 ? "" : "s",
                            example.transport);
}

std::string_view party_word(const Example& example) {
  return example.operation == &kChain ? "chain" : "group";
}

std::string party_title(const Example& example, const Party& party) {
  std::string text = fmt::format("{} {}", party_word(example), group_text(party.ranks));
  if (rows_of(party))
    text += ": " + splits_text(party.splits.front(), example.arguments.type);
  else if (!party.splits.empty())
    text += fmt::format(": {}", party.splits.front().text());
  if (!party.algorithm.empty()) text += fmt::format(", by {}", party.algorithm);
  if (example.operation->rooted)
    text += fmt::format(", its root is rank {}",
                        party.ranks[static_cast<std::size_t>(example.arguments.root)]);
  return text;
}

std::vector<std::uint32_t> ranks_without(const Example& example) {
  std::vector<std::uint32_t> without;
  for (std::uint32_t rank = 0; rank < example.ranks; ++rank) {
    const bool is_in = std::ranges::any_of(example.parties, [&](const Party& party) {
      return std::ranges::find(party.ranks, rank) != party.ranks.end();
    });
    if (!is_in) without.push_back(rank);
  }
  return without;
}

nlohmann::json numbers_json(const Numbers& numbers) {
  auto row = nlohmann::json::array();
  for (const auto& text : numbers) {
    // JSON has no number for some values, such as inf, which become texts.
    const auto number = nlohmann::json::parse(text, nullptr, false);
    row.push_back(number.is_number() ? number : nlohmann::json(text));
  }
  return row;
}

/// By rank; empty for a rank in no party. Several buffers have a list each, and so have the rows of
/// a matrix.
nlohmann::json numbers_json(const Example& example, Side side) {
  nlohmann::json ranks(example.ranks, nlohmann::json::array());
  for (const Party& party : example.parties) {
    for (std::size_t number = 0; number < party.ranks.size(); ++number) {
      auto& row = ranks[party.ranks[number]];
      const auto lists = lists_of(example, party, number, side);
      if (example.buffers.empty() && !rows_of(party))
        row = numbers_json(lists.front());
      else
        for (const Numbers& numbers : lists) row.push_back(numbers_json(numbers));
    }
  }
  return ranks;
}

/// Room for "rank 63" and two blanks.
constexpr std::size_t kRank = 9;

/// The buffers of all ranks, the rows of a table.
struct Sides {
  std::size_t before = 6;  ///< columns
  std::size_t after = 5;
};

Sides sides_of(const Example& example) {
  Sides sides;
  for (const Party& party : example.parties) {
    for (std::size_t number = 0; number < party.ranks.size(); ++number) {
      for (const auto& line : buffer_lines(example, party, number, Side::before))
        sides.before = std::max(sides.before, line.size());
      for (const auto& line : buffer_lines(example, party, number, Side::after))
        sides.after = std::max(sides.after, line.size());
    }
  }
  return sides;
}

/// Fits both sides into `room` columns: a side longer than half of them is shortened.
Sides fitted(const Sides& sides, std::size_t room) {
  if (sides.before + sides.after <= room) return sides;
  const std::size_t half = room / 2;
  if (sides.before <= half) return {sides.before, room - sides.before};
  if (sides.after <= half) return {room - sides.after, sides.after};
  return {half, room - half};
}

/// "0 1 2 .. 39": the first ones and the last.
std::string shortened(std::string text, std::size_t width) {
  if (text.size() > width) {
    const auto last = text.rfind(' ');
    const std::string end = " .." + (last == std::string::npos ? "" : text.substr(last));
    std::size_t cut = width - std::min(width, end.size());
    while (cut > 0 && text[cut] != ' ') --cut;
    text = text.substr(0, cut) + end;
  }
  std::ranges::replace(text, kFill, ' ');
  return text;
}

/// A rank's buffers on both sides, in several lines if they are matrices.
std::string rank_text(const Example& example, const Party& party, std::size_t number,
                      const Sides& sides) {
  const auto before = buffer_lines(example, party, number, Side::before);
  const auto after = buffer_lines(example, party, number, Side::after);
  std::string text;
  for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    const std::string line =
        fmt::format("{:<{}}{:<{}}  {}", i == 0 ? fmt::format("rank {}", party.ranks[number]) : "",
                    kRank, i < before.size() ? shortened(before[i], sides.before) : "",
                    sides.before, i < after.size() ? shortened(after[i], sides.after) : "");
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string example_text(const Example& example, std::size_t width) {
  const Sides whole = sides_of(example);
  const Sides sides = fitted(whole, std::max(width, kRank + 2) - kRank - 2);
  std::string text = bench::wrapped(title(example), width);
  text += fmt::format("\n{:<{}}{:<{}}  after\n", "", kRank, "before", sides.before);
  for (const Party& party : example.parties) {
    if (example.is_parted) text += bench::wrapped(party_title(example, party), width);
    for (std::size_t number = 0; number < party.ranks.size(); ++number)
      text += rank_text(example, party, number, sides);
  }
  const auto without = ranks_without(example);
  if (!without.empty())
    text += fmt::format("in no {}: {}\n", party_word(example), list_ranks(without));
  if (sides.before < whole.before || sides.after < whole.after)
    text += bench::wrapped("..: more than fits; --width N makes room, --json has all", width);
  return text;
}

nlohmann::json example_json(const Example& example) {
  const bench::Operation& operation = *example.operation;
  const bench::Arguments& call = example.arguments;
  const Party& first = example.parties.front();
  nlohmann::json document = {
      {"op", operation.name},
      {"ranks", example.ranks},
      {"dtype", to_string(call.type)},
      {"transport", example.transport},
      {"before", numbers_json(example, Side::before)},
      {"after", numbers_json(example, Side::after)},
  };
  if (!example.buffers.empty())
    document["buffers"] = example.buffers;
  else if (first.splits.empty())
    document["count"] = call.count;
  if (const auto rows = rows_of(first)) document["rows"] = *rows;
  if (operation.reduces) document["redop"] = to_string(call.op);
  if (operation.rooted) document["root"] = call.root;
  const auto say_party = [](const Party& party, nlohmann::json& to) {
    to["algo"] = party.algorithm;
    if (!party.splits.empty()) to["splits"] = party.splits.front().text();
  };
  if (!example.is_parted) say_party(first, document);
  for (const Party& party : example.parties) {
    if (!example.is_parted) break;
    nlohmann::json group = {{"ranks", party.ranks}};
    say_party(party, group);
    document["groups"].push_back(std::move(group));
  }
  return document;
}

}  // namespace

std::string examples_text(std::span<const Example> examples, std::size_t width) {
  if (examples.size() == 1) return example_text(examples.front(), width);
  std::string text =
      fmt::format("{} calls as one (between group_begin and group_end)\n", examples.size());
  for (const Example& example : examples) text += "\n" + example_text(example, width);
  return text;
}

std::string examples_json(std::span<const Example> examples) {
  auto calls = nlohmann::json::array();
  for (const Example& example : examples) calls.push_back(example_json(example));
  const nlohmann::json document =
      calls.size() == 1 ? calls.front() : nlohmann::json{{"calls", std::move(calls)}};
  return document.dump(1) + "\n";
}

}  // namespace ccoll::show
