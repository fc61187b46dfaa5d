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
  news_.with([&](News& news) {
    if (std::ranges::find(news.all, gone.rank, &Gone::rank) == news.all.end())
      news.all.push_back(std::move(gone));
  });
}

std::vector<Departures::Gone> Departures::take() {
  return news_.with([](News& news) {
    const auto first = news.all.begin() + static_cast<std::ptrdiff_t>(news.taken);
    news.taken = news.all.size();
    return std::vector<Gone>(first, news.all.end());
  });
}

std::optional<Failure> Departures::loss_behind(const std::optional<Failure>& failure) const {
  return news_.with([&](const News& news) {
    auto found = std::ranges::find_if(news.all, [&](const Gone& gone) {
      return is_loss(gone) && failure && failure->culprit && gone.why.culprit == failure->culprit;
    });
    if (found == news.all.end()) found = std::ranges::find_if(news.all, is_loss);
    return found == news.all.end() ? std::nullopt : std::optional(found->why);
  });
}

std::optional<Departures::Clock::time_point> Departures::last_loss() const {
  return news_.with([](const News& news) {
    const auto newest_first = news.all | std::views::reverse;
    const auto found = std::ranges::find_if(newest_first, is_loss);
    return found == newest_first.end() ? std::nullopt : std::optional(found->heard);
  });
}

std::vector<Rank> Departures::long_gone(Clock::duration settled, Clock::time_point now,
                                        Clock::time_point& next) const {
  return news_.with([&](const News& news) {
    std::vector<Rank> gone;
    for (const Gone& each : news.all) {
      if (is_loss(each)) continue;
      if (now - each.heard >= settled)
        gone.push_back(each.rank);
      else
        next = std::min(next, each.heard + settled);
    }
    return gone;
  });
}

}  // namespace ccoll
