// SPDX-License-Identifier: Apache-2.0
#include "engine/count_check.hpp"

#include <utility>

#include "engine/describe.hpp"
#include "engine/mix.hpp"

namespace ccoll {

Result<std::unique_ptr<CountCheck>> CountCheck::make(const Program& program, Rank size,
                                                     LinkTable& links) {
  PlanRequest request;
  request.problem.size = size;
  request.problem.count = 1;
  request.program = program;
  request.type = DataType::uint64;
  request.op = ReduceOp::sum;
  request.first_lane = kFirstLane;
  auto plan = Plan::make(request, links);
  if (!plan) return tl::unexpected(plan.error());
  std::unique_ptr<CountCheck> check(new CountCheck);
  check->plan_ = std::move(*plan);
  return check;
}

void CountCheck::start(const PlanRun& run, Rank rank, const std::vector<std::uint64_t>& sent,
                       const std::vector<std::uint64_t>& expected) {
  mine_ = 0;
  // Skip zeros: most counts of a sparse exchange are zero.
  for (std::size_t to = 0; to < sent.size(); to++)
    if (sent[to] > 0) mine_ += mix(rank, to, sent[to]);
  for (std::size_t from = 0; from < expected.size(); from++)
    if (expected[from] > 0) mine_ -= mix(from, rank, expected[from]);
  run_.input.data = reinterpret_cast<std::byte*>(&mine_);
  run_.output.data = reinterpret_cast<std::byte*>(&sum_);
  run_.signature = run.signature;
  run_.sequence = run.sequence;
  plan_->start(run_);
}

Result<bool> CountCheck::advance() {
  auto moved = plan_->advance();
  if (!found()) return moved;
  return fail(ErrorKind::mismatch,
              "{} (call {}): a rank sends a number of elements that its receiver does not expect: "
              "their counts for each other differ",
              describe(run_.signature), run_.sequence);
}

}  // namespace ccoll
