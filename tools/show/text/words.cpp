// SPDX-License-Identifier: Apache-2.0
#include "show/text/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "core/text.hpp"

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

/// How far ahead of each sender its receiver is, if that is the same for all messages.
std::optional<Rank> common_distance(const Round& round, Rank size) {
  std::set<Rank> distances;
  for (const Message& message : round.messages) {
    distances.insert((message.to + size - message.from.rank) % size);
  }
  return distances.size() == 1 ? std::optional(*distances.begin()) : std::nullopt;
}

/// The bit in which each sender's number differs from its receiver's, if it is one for all.
std::optional<int> common_bit(const Round& round) {
  std::set<Rank> differences;
  for (const Message& message : round.messages) {
    differences.insert(message.to ^ message.from.rank);
  }
  if (differences.size() != 1 || !std::has_single_bit(*differences.begin())) return std::nullopt;
  return std::countr_zero(*differences.begin());
}

std::string blocks_each(const Round& round) {
  const std::size_t first = round.messages.front().pieces.size();
  for (const Message& message : round.messages) {
    if (message.pieces.size() != first) return "some blocks";
  }
  return first == 1 ? "one block" : fmt::format("{} blocks", first);
}

std::string who_sends(const Round& round, Rank size) {
  std::set<Rank> senders;
  std::set<Rank> receivers;
  for (const Message& message : round.messages) {
    senders.insert(message.from.rank);
    receivers.insert(message.to);
  }
  const std::string blocks = blocks_each(round);
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

/// Whether something has come to a step that waits for more.
bool leaves_some_waiting(const Round& round) {
  return std::ranges::any_of(round.messages, [&](const Message& message) {
    return message.received && std::ranges::find(round.steps, message.by) == round.steps.end();
  });
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
  std::string text = who_sends(round, rounds.problem.size) + what_becomes(round);
  if (leaves_some_waiting(round)) text += " Some of it waits until more has come.";
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
