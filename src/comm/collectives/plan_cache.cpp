// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/plan_cache.hpp"

#include <utility>

#include "engine/mix.hpp"

namespace ccoll {

std::size_t SignatureHash::operator()(const Signature& signature) const {
  const std::uint64_t value = mix(signature.count + 1);
  return mix(value ^ (std::uint64_t{signature.root} << 32) ^ (std::uint64_t{signature.kind} << 24) ^
             (std::uint64_t{signature.type} << 16) ^ (std::uint64_t{signature.op} << 8) ^
             signature.algorithm);
}

std::shared_ptr<Plan> PlanCache::find(const Signature& key) const {
  const auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second;
}

std::shared_ptr<Plan> PlanCache::keep(const Signature& key, std::unique_ptr<Plan> plan) {
  if (plans_.size() >= capacity_) drop_idle();
  auto& kept = plans_[key];
  kept = std::move(plan);
  return kept;
}

void PlanCache::drop_idle() {
  std::erase_if(plans_, [&](const auto& entry) {
    if (entry.second.use_count() > 1) return false;
    entry.second->add_traffic(dropped_);
    return true;
  });
}

void PlanCache::add_traffic(TrafficTable& table) const {
  for (const auto& [link, traffic] : dropped_) table[link] += traffic;
  for (const auto& [key, plan] : plans_) plan->add_traffic(table);
}

}  // namespace ccoll
