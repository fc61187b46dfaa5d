// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All ranks of an operation in one thread, over real in-process links: plans without
/// communicators.

#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "engine/plan.hpp"
#include "transport/transport_set.hpp"

namespace ccoll::test {

/// Ranks of one process without communicators: only links and waiters.
class Links {
 public:
  explicit Links(Rank size, std::uint64_t communicator) {
    TransportContext context;
    context.table.resize(size);
    std::vector<std::uint32_t> group(size);
    std::iota(group.begin(), group.end(), 0U);
    for (Rank rank = 0; rank < size; rank++) {
      context.rank = rank;
      auto transports = std::make_shared<TransportSet>(context, "inproc");
      tables_.push_back(std::make_unique<LinkTable>(communicator, group, std::move(transports),
                                                    Waiter::make().value()));
    }
  }
  LinkTable& of(Rank rank) { return *tables_[rank]; }
  /// A rank's links end like this with its communicator.
  void leave(Rank rank) { tables_[rank].reset(); }

 private:
  std::vector<std::unique_ptr<LinkTable>> tables_;
};

using Plans = std::vector<std::unique_ptr<Plan>>;

/// Every rank's plan for the whole problem, made from that rank's view of it.
inline Plans make_plans(const Problem& whole, const Choice& choice, DataType type, Links& links,
                        std::uint64_t cached_bytes = UINT64_MAX,
                        ReduceOp op = ReduceOp::sum) {
  Plans plans;
  for (Rank rank = 0; rank < whole.size; rank++) {
    PlanRequest request;
    request.problem = view_of(whole, rank);
    request.choice = choice;
    request.program = make_program(request.problem, choice, rank);
    request.type = type;
    request.op = op;
    request.cached_bytes = cached_bytes;
    plans.push_back(Plan::make(request, links.of(rank)).value());
  }
  return plans;
}

/// Runs started plans in random order until all are done.
inline void run_to_end(Plans& plans, std::mt19937_64& random) {
  std::size_t done = 0;
  for (int idle = 0; done < plans.size() && idle < 10'000; idle++) {
    auto& plan = *plans[random() % plans.size()];
    if (plan.done()) continue;
    auto moved = plan.advance();
    REQUIRE(moved);
    if (*moved) idle = 0;
    if (plan.done()) done++;
  }
  REQUIRE(done == plans.size());
}

}  // namespace ccoll::test
