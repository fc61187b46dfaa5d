// SPDX-License-Identifier: Apache-2.0
// Where ranks stand in a call that is close to its time limit: the rank asks those that it waits
// for, and their service threads answer. The answers are part of the error, and no more.
#include <algorithm>

#include "comm/api/implementation.hpp"
#include "core/printable.hpp"
#include "core/text.hpp"

namespace ccoll {
namespace {

/// Most ranks that one call asks; each costs one message, and one back.
constexpr std::size_t kMostAsked = 8;
/// Longest answer that is shown: the other rank may run another version.
constexpr std::size_t kLongestAnswer = 160;
/// Beginning of an answer from a rank that has not begun the call.
constexpr std::string_view kNotReached = "had not reached this call";

std::int64_t whole_milliseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

std::optional<Rank> AskedStands::absent(std::uint64_t call, const std::vector<Rank>& needed) const {
  if (sequence != call) return std::nullopt;
  const auto is_needed = [&](Rank rank) { return std::ranges::count(needed, rank) > 0; };
  for (const auto& [rank, said] : answers)
    if (said.starts_with(kNotReached) && is_needed(rank)) return rank;
  const auto silent = std::ranges::find_if(
      ranks, [&](Rank rank) { return !answers.contains(rank) && is_needed(rank); });
  return silent == ranks.end() ? std::nullopt : std::optional(*silent);
}

void Communicator::Implementation::note_stand(std::optional<StandReport> stand) {
  const std::lock_guard lock(mutex_);
  stand_ = std::move(stand);
}

void Communicator::Implementation::ask_for_stands_as_owner(const CollectiveOperation& operation,
                                                           Clock::time_point now) {
  AskedStands asked{operation.run.sequence, now, operation.plan->awaited(), {}};
  std::ranges::copy(operation.plan->silent(), std::back_inserter(asked.ranks));
  ask_for_stands_as_owner(std::move(asked));
}

void Communicator::Implementation::ask_for_stands_as_owner(AskedStands asked) {
  std::ranges::sort(asked.ranks);
  asked.ranks.erase(std::unique(asked.ranks.begin(), asked.ranks.end()), asked.ranks.end());
  if (asked.ranks.size() > kMostAsked) asked.ranks.resize(kMostAsked);
  std::vector<std::uint32_t> to;
  for (const auto rank : asked.ranks) to.push_back(group_.job_rank(rank));
  Waiting question{id_, asked.sequence, {}};
  {
    const std::lock_guard lock(mutex_);
    asked_ = std::move(asked);
  }
  question.signature.kind = kAsksStand;
  member_->control().publish(question, to);
}

std::string Communicator::Implementation::stand() const {
  const auto calls = history_.calls();
  const std::lock_guard lock(mutex_);
  if (stand_)
    return fmt::format("made no progress in call {} for {} ms, {}", stand_->sequence,
                       whole_milliseconds(Clock::now() - stand_->since), stand_->words);
  if (calls == 0) return "had made no collective call";
  return fmt::format("was not stuck in a collective call (it began its last, call {},{})",
                     calls - 1, began_before(calls - 1));
}

std::string Communicator::Implementation::began_before(std::uint64_t call) const {
  const auto recorded = history_.recorded(call);
  if (!recorded) return "";
  const FlightRecorder::Times times(recorder_);
  const auto ago = std::max<std::int64_t>(times.now() - times.of(recorded->begun), 0);
  return fmt::format(" {} ms before", ago / 1'000'000);
}

std::string Communicator::Implementation::stand_in(std::uint64_t sequence) const {
  if (sequence >= kFirstMessage) return stand();
  {
    const std::lock_guard lock(mutex_);
    if (stand_ && stand_->sequence == sequence)
      return fmt::format("made no progress for {} ms, {}",
                         whole_milliseconds(Clock::now() - stand_->since), stand_->words);
  }
  const auto calls = history_.calls();
  if (calls == 0) return fmt::format("{}, nor any before", kNotReached);
  const auto last = calls - 1;
  if (sequence > last)
    return fmt::format("{} (it began its last, call {},{})", kNotReached, last, began_before(last));
  auto said = fmt::format("had begun this call{}", began_before(sequence));
  if (last > sequence) said += fmt::format(", and call {} since", last);
  return said;
}

void Communicator::Implementation::take_answer(Rank from, const Waiting& answer) {
  const std::lock_guard lock(mutex_);
  if (!asked_ || asked_->sequence != answer.sequence) return;
  if (std::ranges::find(asked_->ranks, from) == asked_->ranks.end()) return;
  const auto said = printable(answer.note, kLongestAnswer);
  asked_->answers[from] = said.whole ? said.text : said.text + "...";
}

std::string Communicator::Implementation::answers_about(std::uint64_t sequence,
                                                        Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  if (!asked_ || asked_->sequence != sequence || asked_->ranks.empty()) return "";
  std::vector<std::string> said;
  std::vector<Rank> silent;
  for (const auto rank : asked_->ranks) {
    if (const auto answer = asked_->answers.find(rank); answer != asked_->answers.end())
      said.push_back(fmt::format("rank {} {}", rank, answer->second));
    else
      silent.push_back(rank);
  }
  if (!silent.empty()) said.push_back(list_ranks(silent) + " did not answer");
  return fmt::format("; asked {} ms before: {}", whole_milliseconds(now - asked_->at),
                     joined(said, "; "));
}

}  // namespace ccoll
