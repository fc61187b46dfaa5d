// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/departures.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

namespace ccoll {
namespace {

bool is_loss(const Departures::Gone& gone) { return gone.how == Departure::lost; }

}  // namespace

void Departures::add(Gone gone) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(all_, gone.rank, &Gone::rank) == all_.end())
    all_.push_back(std::move(gone));
}

std::vector<Departures::Gone> Departures::take() {
  const std::lock_guard lock(mutex_);
  const auto first = all_.begin() + static_cast<std::ptrdiff_t>(taken_);
  taken_ = all_.size();
  return {first, all_.end()};
}

std::optional<Failure> Departures::loss_behind(const std::optional<Failure>& failure) const {
  const std::lock_guard lock(mutex_);
  auto found = std::ranges::find_if(all_, [&](const Gone& gone) {
    return is_loss(gone) && failure && failure->culprit && gone.why.culprit == failure->culprit;
  });
  if (found == all_.end()) found = std::ranges::find_if(all_, is_loss);
  return found == all_.end() ? std::nullopt : std::optional(found->why);
}

std::optional<Departures::Clock::time_point> Departures::last_loss() const {
  const std::lock_guard lock(mutex_);
  const auto newest_first = all_ | std::views::reverse;
  const auto found = std::ranges::find_if(newest_first, is_loss);
  return found == newest_first.end() ? std::nullopt : std::optional(found->heard);
}

std::vector<Rank> Departures::long_gone(Clock::duration settled, Clock::time_point now,
                                        Clock::time_point& next) const {
  std::vector<Rank> gone;
  const std::lock_guard lock(mutex_);
  for (const Gone& each : all_) {
    if (is_loss(each)) continue;
    if (now - each.heard >= settled)
      gone.push_back(each.rank);
    else
      next = std::min(next, each.heard + settled);
  }
  return gone;
}

}  // namespace ccoll
