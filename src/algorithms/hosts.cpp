// SPDX-License-Identifier: Apache-2.0
#include "algorithms/hosts.hpp"

#include <algorithm>

namespace ccoll {

Hosts::Hosts(const Problem& problem) : places_(problem.size), row_(problem.size) {
  const auto& host_of = problem.host_of;
  const Rank hosts = host_of.empty() ? 1 : std::ranges::max(host_of) + 1;
  std::vector<Rank> sizes(hosts);
  for (Rank rank = 0; rank < problem.size; ++rank) {
    const Rank host = host_of.empty() ? 0 : host_of[rank];
    places_[rank] = {host, sizes[host]++};
  }
  const auto [least, most] = std::ranges::minmax_element(sizes);
  smallest_ = *least;
  largest_ = *most;
  first_.reserve(hosts + std::size_t{1});
  first_.push_back(0);
  for (const Rank size : sizes) first_.push_back(first_.back() + size);
  for (Rank rank = 0; rank < problem.size; ++rank)
    row_[first_[places_[rank].host] + places_[rank].index] = rank;
}

std::vector<Rank> Hosts::others_beside(Rank rank) const {
  const auto all = members(host_of(rank));
  std::vector<Rank> others(all.begin(), all.end());
  others.erase(others.begin() + index_of(rank));
  return others;
}

std::vector<Rank> Hosts::ranks_elsewhere(Rank host) const {
  std::vector<Rank> elsewhere;
  elsewhere.reserve(places_.size() - size(host));
  for (Rank distance = 1; distance < count(); ++distance) {
    const auto next = members((host + distance) % count());
    elsewhere.insert(elsewhere.end(), next.begin(), next.end());
  }
  return elsewhere;
}

}  // namespace ccoll
