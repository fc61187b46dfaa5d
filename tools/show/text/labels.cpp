// SPDX-License-Identifier: Apache-2.0
#include "show/text/labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text.hpp"

namespace ccoll::show {

namespace {

/// If there are more messages, or ranks of one, they are counted instead of named.
constexpr std::size_t kMostGroups = 2;
constexpr std::size_t kMostRanksNamed = 4;
/// The same for a message's blocks, or stretches of them.
constexpr std::size_t kMostBlocks = 3;

bool is_complete(const Content& content, Rank size) {
  const auto once = [](const Share& share) { return share.times == 1; };
  return content.shares.size() == size && std::ranges::all_of(content.shares, once);
}

std::string shares_text(const Content& content) {
  std::string text;
  for (const Share& share : content.shares) {
    if (!text.empty()) text += '+';
    text += fmt::format("{}", share.rank);
    if (share.times > 1) text += fmt::format("x{}", share.times);
  }
  return text;
}

/// Data that goes to, or comes from, the same ranks.
struct Group {
  std::string what;
  std::vector<Rank> ranks;
};

void add(std::vector<Group>& groups, std::string what, Rank rank) {
  const auto same = std::ranges::find(groups, what, &Group::what);
  if (same == groups.end()) {
    groups.push_back({std::move(what), {rank}});
  } else {
    same->ranks.push_back(rank);
  }
}

/// "A -> ranks 1 2, B -> rank 3".
std::string told(std::vector<Group> groups, std::string_view arrow, RankStyle style) {
  if (groups.size() > kMostGroups) return fmt::format("{} messages", groups.size());
  std::string text;
  for (Group& group : groups) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", group.what, arrow);
    if (group.ranks.size() > kMostRanksNamed) {
      text += fmt::format(" {} ranks", group.ranks.size());
      continue;
    }
    if (style == RankStyle::word) text += group.ranks.size() == 1 ? " rank" : " ranks";
    std::ranges::sort(group.ranks);
    for (const Rank rank : group.ranks) text += fmt::format(" {}", rank);
  }
  return text;
}

std::string_view sign_of(const Message& message) {
  if (!message.received) return "not taken";
  return message.reduces ? "+=" : "=";
}

}  // namespace

std::string label_of(const Rounds& rounds, std::uint32_t number, bool named) {
  if (number >= rounds.contents.size()) return number == kNothing ? "." : "?";
  const Content& content = rounds.contents[number];
  const Problem& problem = rounds.problem;
  if (!reduces(problem.kind)) {
    const std::string from = shares_text(content);
    return problem.kind == Kind::all_to_all ? fmt::format("{}>{}", from, content.block) : from;
  }
  if (problem.size > 1 && is_complete(content, problem.size)) return "all";
  if (named) return shares_text(content);
  std::uint64_t sum = 0;
  for (const Share& share : content.shares) sum += share.times;
  const bool twice = sum != content.shares.size();
  return fmt::format("{}/{}{}", content.shares.size(), problem.size, twice ? "!" : "");
}

std::string block_name(std::uint32_t block) {
  constexpr std::uint64_t kLetters = 26;
  std::string name;
  for (std::uint64_t left = std::uint64_t{block} + 1; left > 0; left = (left - 1) / kLetters)
    name.insert(name.begin(), static_cast<char>('A' + (left - 1) % kLetters));
  return name;
}

std::string blocks_text(std::vector<std::uint32_t> blocks) {
  std::ranges::sort(blocks);
  std::string text;
  std::size_t stretches = 0;
  for (std::size_t begin = 0; begin < blocks.size(); ++stretches) {
    std::size_t end = begin;
    while (end + 1 < blocks.size() && blocks[end + 1] == blocks[end] + 1) ++end;
    if (!text.empty()) text += ",";
    text += block_name(blocks[begin]);
    if (end > begin) text += "-" + block_name(blocks[end]);
    begin = end + 1;
  }
  if (stretches > kMostBlocks) return fmt::format("{} blocks", blocks.size());
  return text;
}

std::string pieces_text(const Rounds& rounds, const Message& message,
                        std::uint32_t MessageBlock::*number) {
  if (rounds.problem.kind != Kind::all_to_all) {
    std::vector<std::uint32_t> blocks;
    for (const MessageBlock& piece : message.pieces) blocks.push_back(piece.*number);
    return blocks_text(std::move(blocks));
  }
  if (message.pieces.size() > kMostBlocks) return fmt::format("{} blocks", message.pieces.size());
  std::vector<std::string> labels;
  for (const MessageBlock& piece : message.pieces)
    labels.push_back(label_of(rounds, piece.content));
  return joined(labels, " ");
}

std::string sent_text(const Rounds& rounds, const Round& round, Rank rank, RankStyle style) {
  std::vector<Group> groups;
  for (const Message& message : round.messages) {
    if (message.from.rank == rank)
      add(groups, pieces_text(rounds, message, &MessageBlock::block), message.to);
  }
  return told(std::move(groups), "->", style);
}

std::string received_text(const Rounds& rounds, const Round& round, Rank rank, RankStyle style) {
  std::vector<Group> groups;
  for (const Message& message : round.messages) {
    if (message.to != rank) continue;
    add(groups,
        fmt::format("{} {}", pieces_text(rounds, message, &MessageBlock::to_block),
                    sign_of(message)),
        message.from.rank);
  }
  return told(std::move(groups), "from", style);
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

}  // namespace ccoll::show
