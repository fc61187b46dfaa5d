// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The ranks of the job that a communicator has. Links, control and news know ranks of the job;
/// schedules, callers and errors know ranks of the communicator. The two meet here.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedule/problem.hpp"

namespace ccoll {

class Group {
 public:
  /// `job_ranks[r]` is the job's rank of rank r; no two are equal. `self`, the caller's own rank of
  /// the job, is one of them.
  Group(std::vector<std::uint32_t> job_ranks, std::uint32_t self);
  /// All `size` ranks of the job.
  static Group whole_job(std::size_t size, std::uint32_t self);

  Rank rank() const { return rank_; }
  Rank size() const { return static_cast<Rank>(job_ranks_.size()); }
  const std::vector<std::uint32_t>& job_ranks() const { return job_ranks_; }
  std::uint32_t job_rank(Rank rank) const { return job_ranks_[rank]; }
  /// Nothing if the group does not have it.
  std::optional<Rank> rank_of(std::uint32_t job_rank) const;
  /// Whether every rank has the number here that it has in the job.
  bool numbered_as_job() const { return sorted_.empty(); }
  /// The next and the previous rank, as ranks of the job, each once and never the own.
  std::vector<std::uint32_t> ring_neighbours() const;

 private:
  std::vector<std::uint32_t> job_ranks_;
  /// (rank of the job, rank), ascending; empty if both are always equal.
  std::vector<std::pair<std::uint32_t, Rank>> sorted_;
  Rank rank_ = 0;
};

}  // namespace ccoll
