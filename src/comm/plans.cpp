// SPDX-License-Identifier: Apache-2.0
// Which plan a call runs: chosen, made ready once, and kept.
#include <algorithm>

#include "comm/implementation.hpp"
#include "schedule/verify.hpp"

namespace ccoll {
namespace {

/// Plans kept; beyond that, those that no operation under way uses are dropped.
constexpr std::size_t kMaxPlans = 4096;

/// Links of messages are their own, far from any program's lanes.
constexpr std::uint16_t kMessageLane = 0x8000;

/// Bytes of one slice of a message; up to so many a send may return before its receiver came.
constexpr std::size_t kMessageSlice = 64 << 10;

std::uint64_t mix(std::uint64_t value) {  // splitmix64's finalizer
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

/// One step: the message goes to, or comes from, the peer.
Program message_program(QueueKey::What what, Rank rank, Rank size, Rank peer, bool lends) {
  Step step;
  if (what == QueueKey::What::send) {
    step.local = {{Buffer::input, 0, 1}};
    step.sends = {peer};
    step.lend = lends ? Lend::always : Lend::never;
  } else {
    step.receives = {{peer, 0}};
    step.store = {{Buffer::output, 0, 1}};
  }
  Lane lane;
  lane.steps.push_back(std::move(step));
  Program program{.rank = rank, .size = size, .blocks = 1, .stripes = 1, .lanes = {}};
  program.lanes.push_back(std::move(lane));
  return program;
}

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

std::size_t Communicator::Implementation::PlanKeyHash::operator()(const PlanKey& key) const {
  const auto& signature = key.signature;
  std::uint64_t value = mix(signature.count + 1);
  value = mix(value ^ (std::uint64_t{signature.root} << 32) ^
              (std::uint64_t{signature.kind} << 24) ^ (std::uint64_t{signature.type} << 16) ^
              (std::uint64_t{signature.op} << 8) ^ signature.algorithm);
  return mix(value ^ (std::uint64_t{key.queue.peer} << 8) ^
             static_cast<std::uint64_t>(key.queue.what));
}

void Communicator::Implementation::drop_idle_plans() {
  std::set<const Plan*> used;
  for (const auto& [key, queue] : queues_)
    for (const auto& operation : queue) used.insert(operation->plan);
  std::erase_if(plans_, [&](const auto& entry) { return !used.contains(entry.second.get()); });
}

Result<Plan*> Communicator::Implementation::keep_plan(const PlanKey& key,
                                                      const PlanRequest& request) {
  auto plan = Plan::make(request, links_);
  if (!plan) return tl::unexpected(plan.error());
  if (plans_.size() >= kMaxPlans) drop_idle_plans();
  auto& kept = plans_[key];
  kept = std::move(*plan);
  return kept.get();
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

Result<Plan*> Communicator::Implementation::plan_for(const Call& call) {
  // What was asked for stands in the key; what was chosen, in the signature that ranks compare.
  constexpr std::uint8_t kByCost = 255;
  PlanKey key;
  key.signature = {
      .count = call.count,
      .root = call.root,
      .kind = static_cast<std::uint8_t>(call.kind),
      .type = static_cast<std::uint8_t>(call.type),
      .algorithm = call.algorithm ? static_cast<std::uint8_t>(*call.algorithm) : kByCost};
  sign(call.op, key.signature);
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second.get();

  PlanRequest request;
  request.problem = problem_of(call.kind, call.count, call.root);
  auto asked = forced(call.algorithm);
  asked.in_rank_order = needs_rank_order(call.op);
  request.choice = choose(request.problem, size_of(call.type), costs_, asked).choice;
  request.program = make_program(request.problem, request.choice, rank());
#ifdef CCOLL_DEBUG
  CCOLL_TRY(prove(request));
#endif
  request.type = call.type;
  request.op = kernel_op(call.op);
  request.signature = key.signature;
  request.signature.algorithm = static_cast<std::uint8_t>(request.choice.algorithm);
  return keep_plan(key, request);
}

Result<Plan*> Communicator::Implementation::plan_for(const Message& message) {
  const auto bytes = message.count * size_of(message.type);
  PlanKey key;
  key.signature.count = bytes;
  key.signature.kind = kSendRecv;
  key.queue = {message.what, message.peer};
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second.get();

  PlanRequest request;
  // One block of `bytes` elements on either side, as a broadcast has.
  request.problem = problem_of(Kind::broadcast, bytes, 0);
  request.choice.slice_elems = kMessageSlice;
  request.program =
      message_program(message.what, rank(), size(), message.peer, bytes > kMessageSlice);
  request.signature = key.signature;
  request.first_link_lane = kMessageLane;
  return keep_plan(key, request);
}

}  // namespace ccoll
