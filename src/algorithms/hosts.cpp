// SPDX-License-Identifier: Apache-2.0
#include "algorithms/hosts.hpp"

#include <algorithm>

namespace ccoll {

Hosts::Hosts(const Problem& problem) {
  places_.reserve(problem.size);
  for (Rank rank = 0; rank < problem.size; ++rank) {
    const Rank host = problem.host_of.empty() ? 0 : problem.host_of[rank];
    if (host >= members_.size()) members_.resize(host + std::size_t{1});
    places_.push_back({host, size(host)});
    members_[host].push_back(rank);
  }
  const auto by_size = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto [least, most] = std::ranges::minmax_element(members_, by_size);
  smallest_ = static_cast<Rank>(least->size());
  largest_ = static_cast<Rank>(most->size());
}

std::vector<Rank> Hosts::others_beside(Rank rank) const {
  std::vector<Rank> others = members_[host_of(rank)];
  others.erase(others.begin() + index_of(rank));
  return others;
}

std::vector<Rank> Hosts::ranks_elsewhere(Rank host) const {
  std::vector<Rank> elsewhere;
  elsewhere.reserve(places_.size() - size(host));
  for (Rank distance = 1; distance < count(); ++distance) {
    const auto& next = members_[(host + distance) % count()];
    elsewhere.insert(elsewhere.end(), next.begin(), next.end());
  }
  return elsewhere;
}

}  // namespace ccoll
