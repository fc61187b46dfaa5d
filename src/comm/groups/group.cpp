// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/group.hpp"

#include <algorithm>
#include <numeric>

#include "core/result.hpp"

namespace ccoll {

Group::Group(std::vector<std::uint32_t> job_ranks, std::uint32_t self)
    : job_ranks_(std::move(job_ranks)) {
  bool as_job = true;
  for (Rank rank = 0; rank < size(); rank++) as_job &= job_ranks_[rank] == rank;
  if (!as_job) {
    for (Rank rank = 0; rank < size(); rank++) sorted_.emplace_back(job_ranks_[rank], rank);
    std::ranges::sort(sorted_);
  }
  const auto own = rank_of(self);
  CCOLL_CHECK(own, "rank {} of the job in a group of {}", self, size());
  rank_ = *own;
}

Group Group::whole_job(std::size_t size, std::uint32_t self) {
  std::vector<std::uint32_t> job_ranks(size);
  std::iota(job_ranks.begin(), job_ranks.end(), 0U);
  return {std::move(job_ranks), self};
}

std::optional<Rank> Group::rank_of(std::uint32_t job_rank) const {
  if (numbered_as_job()) return job_rank < size() ? std::optional<Rank>(job_rank) : std::nullopt;
  const auto found =
      std::ranges::lower_bound(sorted_, job_rank, {}, &std::pair<std::uint32_t, Rank>::first);
  if (found == sorted_.end() || found->first != job_rank) return std::nullopt;
  return found->second;
}

std::vector<std::uint32_t> Group::ring_neighbours() const {
  std::vector<std::uint32_t> neighbours;
  if (size() > 1) neighbours.push_back(job_ranks_[(rank_ + 1) % size()]);
  if (size() > 2) neighbours.push_back(job_ranks_[(rank_ + size() - 1) % size()]);
  return neighbours;
}

}  // namespace ccoll
