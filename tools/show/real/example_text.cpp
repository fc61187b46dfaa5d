// SPDX-License-Identifier: Apache-2.0

/// What is printed of an example.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "show/real/example.hpp"
#include "show/text/numbers.hpp"

namespace ccoll::show {

namespace {

Numbers numbers_in(const Example& example, const std::vector<std::byte>& buffer) {
  const DataType type = example.arguments.type;
  return texts_of(type, buffer, 0, buffer.size() / size_of(type));
}

std::string buffer_text(const Example& example, const std::vector<std::byte>& buffer) {
  const Numbers numbers = numbers_in(example, buffer);
  return numbers.empty() ? "-" : joined(numbers, " ");
}

/// "all_reduce of 4 int32, sum, by ring, 4 ranks over inproc".
std::string title(const Example& example) {
  const bench::Operation& operation = *example.operation;
  const bench::Arguments& call = example.arguments;
  const Party& first = example.parties.front();
  std::string text(operation.name);
  if (!first.splits.empty() && !example.is_parted)
    text += fmt::format(" of {} {}", first.splits.front().text(), to_string(call.type));
  else if (!first.splits.empty())
    text += fmt::format(" of {}", to_string(call.type));
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

std::string party_title(const Example& example, const Party& party) {
  std::string text = fmt::format("group {}", group_text(party.ranks));
  if (!party.splits.empty()) text += fmt::format(": {}", party.splits.front().text());
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

nlohmann::json numbers_json(const Example& example,
                            const std::vector<std::vector<std::byte>>& all) {
  auto ranks = nlohmann::json::array();
  for (const auto& buffer : all) {
    auto& row = ranks.emplace_back(nlohmann::json::array());
    for (const auto& text : numbers_in(example, buffer)) {
      // What JSON has no number for, as inf, is a text.
      const auto number = nlohmann::json::parse(text, nullptr, false);
      row.push_back(number.is_number() ? number : nlohmann::json(text));
    }
  }
  return ranks;
}

}  // namespace

std::string example_text(const Example& example) {
  std::size_t width = 6;
  for (const auto& buffer : example.before)
    width = std::max(width, buffer_text(example, buffer).size());
  std::string text = fmt::format("{}\n\n{:<9}{:<{}}  after\n", title(example), "", "before", width);
  for (const Party& party : example.parties) {
    if (example.is_parted) text += party_title(example, party) + "\n";
    for (const std::uint32_t rank : party.ranks)
      text += fmt::format("{:<9}{:<{}}  {}\n", fmt::format("rank {}", rank),
                          buffer_text(example, example.before[rank]), width,
                          buffer_text(example, example.after[rank]));
  }
  const auto without = ranks_without(example);
  if (!without.empty()) text += fmt::format("in no group: {}\n", list_ranks(without));
  return text;
}

std::string example_json(const Example& example) {
  const bench::Operation& operation = *example.operation;
  const bench::Arguments& call = example.arguments;
  const Party& first = example.parties.front();
  nlohmann::json document = {
      {"op", operation.name},
      {"ranks", example.ranks},
      {"dtype", to_string(call.type)},
      {"transport", example.transport},
      {"before", numbers_json(example, example.before)},
      {"after", numbers_json(example, example.after)},
  };
  if (first.splits.empty()) document["count"] = call.count;
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
  return document.dump(1) + "\n";
}

}  // namespace ccoll::show
