// SPDX-License-Identifier: Apache-2.0
// Which plan a call runs: chosen, made ready once, and kept.
#include <algorithm>

#include "comm/implementation.hpp"
#include "comm/mix.hpp"
#include "comm/remarks.hpp"
#include "schedule/verify.hpp"

namespace ccoll {
namespace {

/// Plans kept; beyond that, those that no operation under way uses are dropped.
constexpr std::size_t kMaxPlans = 4096;

#ifdef CCOLL_DEBUG
/// Debug builds prove what is about to run; plans are kept, so each once.
Status prove(const PlanRequest& request) {
  constexpr Rank kMaxRanks = 64;
  if (request.problem.size > kMaxRanks) return {};
  // Windows repeat: a few show all there is, whatever the buffer's size.
  auto problem = request.problem;
  auto choice = request.choice;
  if (sizes_are_private(problem)) {
    // This rank cannot know them all, and the program does not depend on them.
    problem.count = problem.size;
    problem.block_counts.clear();
    problem.output_counts.clear();
  }
  if (problem.block_counts.empty()) {
    problem.count = std::min<std::uint64_t>(problem.count, 4 * problem.size + 1);
    choice.slice_elems = std::min<std::uint64_t>(choice.slice_elems, 2);
  }
  const auto report =
      verify(problem, choice, [&](Rank rank) { return make_program(problem, choice, rank); });
  if (!report.ok()) return fail(ErrorKind::internal, "a schedule is wrong:\n{}", report.text());
  if (report.slots_needed > kLinkSlots)
    return fail(ErrorKind::internal, "a schedule needs {} slots, links have {}",
                report.slots_needed, kLinkSlots);
  return {};
}
#endif

}  // namespace

std::size_t Communicator::Implementation::SignatureHash::operator()(
    const Signature& signature) const {
  const std::uint64_t value = mix(signature.count + 1);
  return mix(value ^ (std::uint64_t{signature.root} << 32) ^ (std::uint64_t{signature.kind} << 24) ^
             (std::uint64_t{signature.type} << 16) ^ (std::uint64_t{signature.op} << 8) ^
             signature.algorithm);
}

void Communicator::Implementation::drop_idle_plans() {
  std::set<const Plan*> used;
  for (const auto& operation : collectives_) used.insert(operation->plan);
  std::erase_if(plans_, [&](const auto& entry) { return !used.contains(entry.second.get()); });
}

Forced Communicator::Implementation::forced(std::optional<Algorithm> algorithm) const {
  auto forced = forced_;
  if (algorithm) forced.algorithm = algorithm;
  return forced;
}

Problem Communicator::Implementation::problem_of(Kind kind, std::size_t count, Rank root) const {
  Problem problem;
  problem.kind = kind;
  problem.size = size();
  problem.root = root;
  problem.count = count;
  return problem;
}

Signature Communicator::Implementation::signature_of(const Call& call) {
  constexpr std::uint8_t kByCost = 255;
  Signature signature;
  signature.count = call.count;
  signature.root = call.root;
  signature.kind = call.shown_as.value_or(static_cast<std::uint8_t>(call.kind));
  signature.type = static_cast<std::uint8_t>(call.type);
  signature.algorithm = call.algorithm ? static_cast<std::uint8_t>(*call.algorithm) : kByCost;
  sign(call.op, signature);
  return signature;
}

Result<Plan*> Communicator::Implementation::plan_for(const Call& call) {
  // What was asked for stands in the key; what was chosen, in the signature that ranks compare.
  const Signature asked = signature_of(call);
  if (const auto found = plans_.find(asked); found != plans_.end()) return found->second.get();

  PlanRequest request;
  request.problem = problem_of(call.kind, call.count, call.root);
  auto forcing = forced(call.algorithm);
  forcing.in_rank_order = needs_rank_order(call.op);
  const Chosen chosen = choose(request.problem, size_of(call.type), costs_, forcing);
  request.choice = chosen.choice;
  request.program = make_program(request.problem, request.choice, rank());
#ifdef CCOLL_DEBUG
  CCOLL_TRY(prove(request));
#endif
  request.type = call.type;
  request.op = kernel_op(call.op);
  request.signature = asked;
  request.signature.algorithm = static_cast<std::uint8_t>(request.choice.algorithm);
  tell_choice(rank(), request.signature, chosen);
  auto plan = Plan::make(request, links_);
  if (!plan) return tl::unexpected(plan.error());
  if (plans_.size() >= kMaxPlans) drop_idle_plans();
  auto& kept = plans_[asked];
  kept = std::move(*plan);
  return kept.get();
}

}  // namespace ccoll
