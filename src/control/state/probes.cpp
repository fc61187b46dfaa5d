// SPDX-License-Identifier: Apache-2.0
#include "control/state/probes.hpp"

namespace ccoll::control {
namespace {

/// Added to the heartbeat's limit: while a rank waits, it repeats its question within that time.
/// After a longer gap, earlier silence says nothing.
constexpr std::chrono::milliseconds kForgotten{5000};

}  // namespace

void Probes::want(std::uint32_t rank, Time now) {
  if (!in_flight_.contains(rank)) wanted_.try_emplace(rank, now);
}

std::optional<Probes::Question> Probes::next() {
  if (wanted_.empty() || in_flight_.size() >= kMostAtOnce) return std::nullopt;
  // Round-robin, so that ranks that are asked for repeatedly hold up no others.
  auto next = wanted_.upper_bound(last_);
  if (next == wanted_.end()) next = wanted_.begin();
  const Question question{next->first, next->second};
  wanted_.erase(next);
  last_ = question.rank;
  in_flight_.insert(question.rank);
  return question;
}

int Probes::is_silent(const Question& question, Time now, std::chrono::milliseconds limit) {
  Unanswered& found = unanswered_.try_emplace(question.rank, Unanswered{now, now, 0}).first->second;
  if (question.since - found.last > limit + kForgotten) found = {now, now, 0};
  found.last = now;
  found.times++;
  return found.times < 2 || now - found.first < limit / 2 ? 0 : found.times;
}

}  // namespace ccoll::control
