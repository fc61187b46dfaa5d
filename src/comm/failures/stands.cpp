// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/stands.hpp"

#include <algorithm>

#include "control/control.hpp"
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

std::int64_t whole_milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

void Stands::set(std::optional<StandReport> stand) {
  known_.with([&](Known& known) { known.stand = std::move(stand); });
}

std::string Stands::began_before(std::uint64_t call) const {
  const auto recorded = history_.recorded(call);
  if (!recorded) return "";
  const Times times(clocks_);
  const auto ago = std::max<std::int64_t>(times.now() - times.of(recorded->begun), 0);
  return fmt::format(" {} ms before", ago / 1'000'000);
}

std::string Stands::anywhere(const std::optional<StandReport>& stand, Clock::time_point now) const {
  const auto calls = history_.calls();
  if (stand)
    return fmt::format("made no progress in call {} for {} ms, {}", stand->sequence,
                       whole_milliseconds(now - stand->since), stand->words);
  if (calls == 0) return "had made no collective call";
  return fmt::format("was not stuck in a collective call (it began its last, call {},{})",
                     calls - 1, began_before(calls - 1));
}

std::string Stands::answer(std::uint64_t sequence, Clock::time_point now) const {
  const auto stand = known_.with([](const Known& known) { return known.stand; });
  if (sequence >= kFirstMessage) return anywhere(stand, now);
  if (stand && stand->sequence == sequence)
    return fmt::format("made no progress for {} ms, {}", whole_milliseconds(now - stand->since),
                       stand->words);
  const auto calls = history_.calls();
  if (calls == 0) return fmt::format("{}, nor any before", kNotReached);
  const auto last = calls - 1;
  if (sequence > last)
    return fmt::format("{} (it began its last, call {},{})", kNotReached, last, began_before(last));
  auto said = fmt::format("had begun this call{}", began_before(sequence));
  if (last > sequence) said += fmt::format(", and call {} since", last);
  return said;
}

std::vector<Rank> Stands::ask(Question question) {
  auto& ranks = question.ranks;
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.size() > kMostAsked) ranks.resize(kMostAsked);
  auto asked = ranks;
  known_.with([&](Known& known) {
    known.asked = std::move(question);
    known.answers.clear();
  });
  return asked;
}

void Stands::take_answer(Rank from, std::uint64_t sequence, std::string_view said) {
  known_.with([&](Known& known) {
    if (!known.asked || known.asked->sequence != sequence) return;
    if (std::ranges::find(known.asked->ranks, from) == known.asked->ranks.end()) return;
    const auto shown = printable(said, kLongestAnswer);
    known.answers[from] = shown.whole ? shown.text : shown.text + "...";
  });
}

std::string Stands::answers_about(std::uint64_t sequence, Clock::time_point now) const {
  return known_.with([&](const Known& known) -> std::string {
    const auto& asked = known.asked;
    if (!asked || asked->sequence != sequence || asked->ranks.empty()) return "";
    std::vector<std::string> said;
    std::vector<Rank> silent;
    for (const auto rank : asked->ranks) {
      if (const auto answer = known.answers.find(rank); answer != known.answers.end())
        said.push_back(fmt::format("rank {} {}", rank, answer->second));
      else
        silent.push_back(rank);
    }
    if (!silent.empty()) said.push_back(list_ranks(silent) + " did not answer");
    return fmt::format("; asked {} ms before: {}", whole_milliseconds(now - asked->at),
                       joined(said, "; "));
  });
}

std::optional<Rank> Stands::absent(std::uint64_t sequence, const std::vector<Rank>& needed) const {
  return known_.with([&](const Known& known) -> std::optional<Rank> {
    const auto& asked = known.asked;
    if (!asked || asked->sequence != sequence) return std::nullopt;
    const auto is_needed = [&](Rank rank) { return std::ranges::count(needed, rank) > 0; };
    for (const auto& [rank, said] : known.answers)
      if (said.starts_with(kNotReached) && is_needed(rank)) return rank;
    const auto silent = std::ranges::find_if(
        asked->ranks, [&](Rank rank) { return !known.answers.contains(rank) && is_needed(rank); });
    return silent == asked->ranks.end() ? std::nullopt : std::optional(*silent);
  });
}

void Stands::note_cycle(std::uint64_t sequence, const std::string& cycle) {
  known_.with([&](Known& known) { known.cycles[sequence] = cycle; });
}

std::string Stands::cycle_of(std::uint64_t sequence) const {
  return known_.with([&](const Known& known) {
    const auto found = known.cycles.find(sequence);
    return found == known.cycles.end() ? std::string() : found->second;
  });
}

}  // namespace ccoll
