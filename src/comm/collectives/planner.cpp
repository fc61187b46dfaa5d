// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/planner.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "comm/call/reductions.hpp"
#include "comm/collectives/widening.hpp"
#include "comm/failures/remarks.hpp"
#include "engine/windows.hpp"
#include "verify/verify.hpp"

namespace ccoll {
namespace {

#ifdef CCOLL_DEBUG
/// Debug builds prove what is about to run; plans are kept, so each once.
Status prove(const PlanRequest& request) {
  constexpr Rank kMaxRanks = 64;
  if (request.problem.size > kMaxRanks) return {};
  // Windows repeat: a few show all there is, whatever the buffer's size.
  auto problem = request.problem;
  auto choice = request.choice;
  // The program does not depend on ragged blocks' sizes.
  problem.block_counts.clear();
  problem.output_counts.clear();
  problem.count = std::min<std::uint64_t>(problem.count, 4 * problem.size + 1);
  choice.slice_elems = std::min<std::uint64_t>(choice.slice_elems, 2);
  const auto report =
      verify(problem, choice, [&](Rank rank) { return make_program(problem, choice, rank); });
  if (!report.ok()) return fail(ErrorKind::internal, "a schedule is wrong:\n{}", report.text());
  if (report.slots_needed > kLinkSlots)
    return fail(ErrorKind::internal, "a schedule needs {} slots, links have {}",
                report.slots_needed, kLinkSlots);
  return {};
}
#endif

/// Calls with ragged blocks share plans: one is made for equal blocks of the mean size, rounded up
/// to a power of two. Choosing does not look at sizes that are private.
std::uint64_t planned_count(const Call& call, Rank size) {
  if (!call.ragged()) return call.count;
  if (sizes_are_private(call.kind)) return 0;
  const auto total =
      std::accumulate(call.block_counts.begin(), call.block_counts.end(), std::uint64_t{0});
  return std::bit_ceil((total + size - 1) / size);
}

}  // namespace

Forced Planner::forced(std::optional<Algorithm> algorithm) const {
  auto forced = setting_.forced;
  if (algorithm) forced.algorithm = algorithm;
  return forced;
}

Problem Planner::problem_of(const Call& call) const {
  Problem problem;
  problem.kind = call.kind;
  problem.size = setting_.size;
  problem.root = call.root;
  problem.count = planned_count(call, setting_.size);
  problem.host_of = setting_.hosts;
  return call.ragged() ? evenly_ragged(std::move(problem)) : problem;
}

Signature Planner::key_of(const Call& call, Signature key) const {
  key.kind = static_cast<std::uint8_t>(call.kind);
  if (call.ragged() || call.coalesced) {
    key.root = call.root;  // without the hash of sizes
    key.count = call.count;
    sign(call.op, key);
  }
  if (call.ragged()) {
    key.kind |= kRagged;
    key.count = planned_count(call, setting_.size);
  }
  return key;
}

Result<PlanRequest> Planner::request_for(const Call& call, const Signature* asked) const {
  const auto rank = setting_.rank;
  PlanRequest request;
  request.problem = problem_of(call);
  auto forcing = forced(call.algorithm);
  forcing.order = order_of(call.op, call.type, setting_.deterministic);
  const auto [chosen, type] = choose_for(call, request.problem, setting_.costs, forcing);
  request.choice = chosen.choice;
  request.program = make_program(request.problem, request.choice, rank);
#ifdef CCOLL_DEBUG
  CCOLL_TRY(prove(request));
#endif
  request.type = type;
  request.op = kernel_op(call.op);
  request.cached_bytes = setting_.cached_bytes;
  request.oversubscribed = is_oversubscribed_;
  if (asked != nullptr) log_choice(rank, *asked, chosen);
  if (sizes_are_private(request.problem) && !tells_empty_blocks(request.problem)) {
    Problem check;
    check.size = setting_.size;
    check.count = 1;
    request.count_check = make_program(check, {.algorithm = Algorithm::tree}, rank);
  }
  return request;
}

}  // namespace ccoll
