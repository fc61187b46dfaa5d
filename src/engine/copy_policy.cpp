// SPDX-License-Identifier: Apache-2.0
#include "engine/copy_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>

namespace ccoll {
namespace {

using Trial = CopyRules::Trial;

/// A core's own caches hold this much of one rank's data. A rank that combines them reads them
/// there as fast as out of slots. A reduce of 256 KiB by slots takes 1.31 times as long, and one of
/// 2 to 8 MiB without them 1.24 to 1.39 (two ranks, registered memory, Zen 5, 2026-11-30).
constexpr std::uint64_t kNearBytes = 1 << 20;

/// Two ranks whose data are one to three times their share of the cache are fastest if both copy,
/// through slots: otherwise the reader alone has to read and to write. With longer data only the
/// traffic between memory and cache counts. A broadcast in place of 32 MiB otherwise takes 1.14
/// times as long, one of 16 MiB 0.99 (two ranks, registered memory, Zen 5, 2026-11-30).
constexpr std::uint64_t kTimesTheCache = 3;

/// Calls of about one size share a class: powers of two from 16 KiB to 512 MiB, twice.
LoanClass loan_class(bool reduces, std::uint64_t bytes) {
  constexpr LoanClass kSizes = kLoanClasses / 2;
  const auto size = std::bit_width(bytes / CopierChoice::kLeastBytes);
  return (reduces ? kSizes : 0) + std::clamp<LoanClass>(static_cast<LoanClass>(size), 1, kSizes) -
         1;
}

Trial trial_of(const CopySituation& situation) {
  if (situation.slice_bytes < CopierChoice::kLeastBytes) return Trial::none;
  if (situation.sends && situation.receives) return situation.reduces ? Trial::none : Trial::own;
  if (situation.ranks != 2 || situation.call_bytes == 0) return Trial::none;
  return situation.sends ? Trial::of_the_receiver : Trial::for_the_sender;
}

std::string_view name(Copier copier) {
  switch (copier) {
    case Copier::receiver:
      return "the receiver copies";
    case Copier::sender:
      return "the sender copies";
    case Copier::sender_always:
      return "the sender copies mapped memory, too";
  }
  return "?";
}

std::string_view name(Trial trial) {
  switch (trial) {
    case Trial::none:
      return "no trial";
    case Trial::own:
      return "own trial";
    case Trial::of_the_receiver:
      return "the receiver's trial";
    case Trial::for_the_sender:
      return "a trial for the sender";
  }
  return "?";
}

/// Costs are known of ordinary memory that is copied. A rank that combines reads slots in any case,
/// and ranks that take turns wait for their core.
std::optional<bool> is_other_cheaper(const CopyRules& rules, const CopySituation& situation,
                                     const CopyCosts& costs) {
  if (rules.trial == Trial::none || situation.reduces || situation.oversubscribed)
    return std::nullopt;
  const bool loan_is_usual = rules.usual == Copier::receiver;
  const auto pattern = situation.sends && situation.receives ? CopyCosts::Pattern::both_ways
                                                             : CopyCosts::Pattern::one_way;
  const auto bytes = situation.sends ? situation.input_bytes : situation.output_bytes;
  return costs.prefers_loan(pattern, bytes) != loan_is_usual;
}

bool all_can_lend(CopyPolicy::Outgoing to) {
  return !to.empty() &&
         std::ranges::all_of(to, [](const auto& each) { return each.first->copies_once(); });
}

}  // namespace

CopyRules copy_rules(const CopySituation& situation, const CopyCosts* costs) {
  const auto input = situation.input_bytes, output = situation.output_bytes;
  const auto cached = situation.cached_bytes;
  const bool only_sends = situation.sends && !situation.receives;
  const bool is_pair = situation.ranks == 2;
  // The only receiver of the reduced data has all the combining to do.
  const bool feeds = only_sends && situation.reduces && is_pair;

  CopyRules rules;
  rules.streams = input + output > cached;
  rules.trial = trial_of(situation);
  // A rank that combines reads out of a slot as well, and a rank that only sends has time to copy.
  if (feeds && input > kNearBytes)
    rules.usual = Copier::sender_always;
  else if (situation.reduces || !situation.receives)
    rules.usual = Copier::sender;
  if (rules.trial == Trial::of_the_receiver || rules.trial == Trial::for_the_sender) {
    // The receiver knows the two ways by the same names.
    if (rules.trial == Trial::for_the_sender) rules.usual = Copier::sender;
    rules.other = Copier::receiver;
    rules.loans = loan_class(situation.reduces, situation.call_bytes);
  }
  if (costs != nullptr) rules.other_is_cheaper = is_other_cheaper(rules, situation, *costs);
  rules.in_place = rules.usual;
  if (only_sends && is_pair && !situation.oversubscribed && output > cached &&
      output / kTimesTheCache < cached) {
    rules.in_place = Copier::sender_always;
    rules.trial = Trial::none;
  }
  return rules;
}

std::string describe(const CopyRules& rules) {
  if (rules.trial == Trial::none)
    return fmt::format("{}; {}", name(rules.usual), name(rules.trial));
  const bool swaps = rules.other_is_cheaper.value_or(false);
  return fmt::format("{}, or {}; {}", name(swaps ? rules.other : rules.usual),
                     name(swaps ? rules.usual : rules.other), name(rules.trial));
}

void CopyPolicy::set(const CopySituation& situation, const CopyCosts* costs) {
  rules_ = copy_rules(situation, costs);
  choice_ = CopierChoice(rules_.usual, rules_.other);
  if (rules_.other_is_cheaper) choice_.estimate(*rules_.other_is_cheaper);
  tried_.reset();
}

void CopyPolicy::try_ways(Outgoing to, Incoming from, bool counts) {
  if (rules_.trial == Trial::of_the_receiver)
    choice_.prefer_other(to.front().first->prefers_loans(rules_.loans));
  // Every run counts, so that both ranks try the same way at a time.
  tried_ = choice_.begin();
  // A trial of its own would take the other rank unawares: the sender only follows.
  const bool watches_sender = rules_.trial == Trial::for_the_sender && !choice_.is_trying();
  if (!counts || watches_sender || rules_.trial == Trial::of_the_receiver) tried_->is_timed = false;
  if (rules_.trial == Trial::for_the_sender) {
    for (auto* const link : from) link->prefer_loans(rules_.loans, choice_.prefers_other());
  } else if (!all_can_lend(to)) {
    tried_.reset();
    return;
  }
  copier_ = tried_->copier;
}

}  // namespace ccoll
