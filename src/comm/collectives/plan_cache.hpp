// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The plans that a communicator has made.

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "core/signature.hpp"
#include "engine/plan.hpp"

namespace ccoll {

struct SignatureHash {
  std::size_t operator()(const Signature& signature) const;
};

/// Keeps plans for later calls of the same key, up to a number of them. Beyond that, those that no
/// operation under way uses are dropped, but their traffic still counts. Used by the holder of the
/// owner flag.
class PlanCache {
 public:
  explicit PlanCache(std::size_t capacity = 4096) : capacity_(capacity) {}

  /// Null if there is none.
  std::shared_ptr<Plan> find(const Signature& key) const;
  /// Returns the plan, which find() then returns for that key.
  std::shared_ptr<Plan> keep(const Signature& key, std::unique_ptr<Plan> plan);
  /// Adds the traffic of all plans so far.
  void add_traffic(TrafficTable& table) const;

 private:
  void drop_idle();

  const std::size_t capacity_;
  std::unordered_map<Signature, std::shared_ptr<Plan>, SignatureHash> plans_;
  TrafficTable dropped_;  ///< traffic of dropped plans
};

}  // namespace ccoll
