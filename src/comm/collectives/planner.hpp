// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The choice of a plan for a call.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "comm/call/call.hpp"
#include "engine/plan.hpp"

namespace ccoll {

/// Knows the ranks, their hosts and costs, and the communicator's options, which do not change.
/// Chooses the algorithm for a call and makes this rank's program. All ranks choose the same, since
/// all but the rank and its caches is the same for them. Any thread may use it.
class Planner {
 public:
  struct Setting {
    Rank rank = 0;
    Rank size = 1;
    std::vector<std::uint32_t> hosts = {};  ///< as Problem::host_of
    CostTable costs = {};
    Forced forced = {};                       ///< by the communicator's options
    bool deterministic = false;               ///< whether results must not depend on the algorithm
    bool shares_memory = false;               ///< all ranks do
    std::uint64_t cached_bytes = UINT64_MAX;  ///< as PlanRequest's
  };

  Planner() = default;
  explicit Planner(Setting setting)
      : setting_(std::move(setting)), is_oversubscribed_(setting_.costs.cores_per_rank < 1) {}

  const CostTable& costs() const { return setting_.costs; }
  bool is_deterministic() const { return setting_.deterministic; }
  bool shares_memory() const { return setting_.shares_memory; }
  /// Whether ranks outnumber cores.
  bool is_oversubscribed() const { return is_oversubscribed_; }
  /// Whether each rank has a core of its own, and few have a second one.
  bool fills_cores() const { return !is_oversubscribed_ && setting_.costs.cores_per_rank < 2; }

  /// Merges the communicator's options with `algorithm`, which has precedence.
  Forced forced(std::optional<Algorithm> algorithm) const;
  /// Returns the problem that this call is planned as.
  Problem problem_of(const Call& call) const;
  /// Returns the key by which plans differ: the signature without the parts that one plan serves.
  Signature key_of(const Call& call, Signature key) const;
  /// Chooses, and logs the choice if the call's signature is given. Fails only in debug builds,
  /// which prove the program.
  Result<PlanRequest> request_for(const Call& call, const Signature* asked = nullptr) const;

 private:
  Setting setting_;
  bool is_oversubscribed_ = false;
};

}  // namespace ccoll
