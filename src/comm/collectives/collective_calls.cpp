// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/collective_calls.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "engine/describe.hpp"
#include "system/log.hpp"

namespace ccoll {
namespace {

/// Elements of a call that is long enough for the links of long calls: 1 MiB.
constexpr std::uint64_t kLongCount = (1 << 20) / sizeof(float);

}  // namespace

Result<std::shared_ptr<Work::State>> CollectiveCalls::begin(Owned owned, const Call& call,
                                                            const InStream& in_stream) try {
  auto& failures = with_.failures;
  const auto rank = with_.self.rank();
  CCOLL_TRY(failures.usable(owned));
  auto operation = std::make_shared<CollectiveOperation>();
  // Allocate first: a throw after the operation has begun would free the buffers that it uses.
  auto work = std::make_shared<Work::State>(Work::State{with_.progress.weak(), {operation}});
  if (auto ready = make_ready(owned, call, in_stream, *operation); !ready) {
    // The other ranks would wait for this one.
    failures.break_with(owned, ready.error(), true);
    return tl::unexpected(*failures.broken(owned));
  }
  if (log().tells(LogLevel::trace))
    log().trace("rank {}: {} begins", rank, describe(operation->run.signature));
  operation->label = call.label;
  operation->gate = in_stream.gate;
  operation->timeout = call.timeout;
  with_.limits.set(owned, *operation, with_.progress.now(), call.timeout);
  if (operation->gate) operation->deadline = Clock::time_point::max();
  auto& queue = this->queue(owned);
  const auto place = queue.place_for(in_stream.from_graph);
  if (!in_stream.gate && queue.is_numbered_before(place)) {
    if (auto numbered = number(owned, *operation); !numbered) {
      failures.break_with(owned, numbered.error(), true);
      return tl::unexpected(numbered.error());
    }
  } else {
    operation->run.sequence = queue.likely_number(place);
  }
  queue.insert(place, std::move(operation));
  with_.progress.begin(owned);
  return work;
} catch (...) {
  with_.failures.threw(owned, failure_of(std::current_exception()));
  return tl::unexpected(*with_.failures.broken(owned));
}

Status CollectiveCalls::number(Owned owned, CollectiveOperation& operation) {
  auto& queue = this->queue(owned);
  auto& run = operation.run;
  if (!operation.label.empty() || run.custom)
    with_.record.labels().set(queue.next_number(), operation.note());
  if (record(owned, run.signature)) CCOLL_TRY(with_.comparison.compare_with_ahead());
  run.sequence = queue.take_number();
  operation.is_numbered = true;
  return {};
}

Result<std::shared_ptr<Plan>> CollectiveCalls::plan_for(Owned owned, const Call& call,
                                                        const Signature& asked) {
  const auto key = with_.planner.key_of(call, asked);
  if (auto found = plans_.find(key)) return found;
  const auto request = with_.planner.request_for(call, &asked);
  if (!request) return tl::unexpected(request.error());
  auto plan = Plan::make(*request, with_.under_way.links(owned));
  if (!plan) return tl::unexpected(plan.error());
  if (auto* tracing = with_.record.tracing(owned))
    (*plan)->observe(tracing->observer_for(*request, call.ragged()));
  return plans_.keep(key, std::move(*plan));
}

void CollectiveCalls::rehearse(Owned owned) {
  const auto rank = with_.self.rank(), size = with_.self.size();
  if (size == 1 || !with_.failures.usable(owned)) return;
  auto& links = with_.under_way.links(owned);
  for (Rank peer = 0; peer < size; peer++)
    if (peer != rank && !links.opens_ahead(peer)) return;
  const auto try_plan = [&](Kind kind, std::uint64_t count) {
    Call call;
    call.kind = kind;
    call.count = count;
    call.type = DataType::float32;
    call.op = ReduceOp::sum;
    // If this fails, for example for want of memory, a call fails for the same reason and says so.
    static_cast<void>(caught([&] {
      return with_.planner.request_for(call).and_then(
          [&](const PlanRequest& request) { return Plan::make(request, links); });
    }));
  };
  for (const auto kind : {Kind::all_reduce, Kind::all_gather, Kind::all_to_all,
                          Kind::reduce_scatter, Kind::broadcast, Kind::reduce, Kind::barrier})
    try_plan(kind, 1);
  // The two trees of a long call have links that short calls do not use. In shared memory there are
  // better ways.
  if (!with_.planner.shares_memory()) try_plan(Kind::all_reduce, kLongCount);
}

Status CollectiveCalls::make_ready(Owned owned, const Call& call, const InStream& in_stream,
                                   CollectiveOperation& operation) {
  const auto rank = with_.self.rank(), size = with_.self.size();
  auto& run = operation.run;
  run.signature = signature_of(call);
  if (in_stream.on_device) return make_ready_beside(owned, *in_stream.on_device, operation);
  auto plan = plan_for(owned, call, run.signature);
  if (!plan) return tl::unexpected(plan.error());
  operation.plan = *plan;
  run.signature.algorithm = static_cast<std::uint8_t>((*plan)->algorithm());
  run.input = call.input;
  run.output = call.output;
  run.in_place = call.in_place;
  run.block_counts = call.block_counts;
  run.output_counts = call.output_counts;
  run.custom = call.op.custom();
  run.custom_for = &with_.self;
  if (in_stream.parts) operation.parts.emplace(in_stream.parts, run);
  if (call.kind == Kind::barrier) {
    run.input.data = &barrier_[0];
    run.output.data = &barrier_[1];
  }
  if (is_widened(call, (*plan)->algorithm(), size)) {
    auto widening = Widening::make(call, rank, size, run);
    if (!widening) return tl::unexpected(widening.error());
    operation.widening = std::move(*widening);
  }
  if (needs_input_copy(call)) {
    auto copy = InputCopy::make(call, rank, size, run);
    if (!copy) return tl::unexpected(copy.error());
    operation.input_copy = std::move(*copy);
  }
  if (call.op.form() != Reduction::Form::premultiplied_sum) return {};
  auto premultiplication = Premultiplication::make(call, rank, size, run);
  if (!premultiplication) return tl::unexpected(premultiplication.error());
  operation.premultiplication = std::move(*premultiplication);
  return {};
}

Status CollectiveCalls::make_ready_beside(Owned owned, Algorithm algorithm,
                                          CollectiveOperation& operation) {
  Call barrier;
  barrier.kind = Kind::barrier;
  barrier.count = 1;
  barrier.op = ReduceOp::max;
  auto plan = plan_for(owned, barrier, signature_of(barrier));
  if (!plan) return tl::unexpected(plan.error());
  operation.plan = *plan;
  auto& run = operation.run;
  run.signature.algorithm = static_cast<std::uint8_t>(algorithm);
  run.input.data = &barrier_[0];
  run.output.data = &barrier_[1];
  return {};
}

Result<std::shared_ptr<Work::State>> CollectiveCalls::run(Owned owned, const Call& call) {
  CCOLL_TRY(alone(owned, call));
  auto& queue = this->queue(owned);
  const Collectives::Blocked blocked(queue,
                                     {signature_of(call), queue.likely_number(queue.size())});
  return over(owned, with_.progress.finish(owned, begin(owned, call)));
}

Result<std::shared_ptr<Work::State>> CollectiveCalls::over(
    Owned owned, Result<std::shared_ptr<Work::State>> finished) {
  // A collective fails only together with all that is under way.
  if (finished && (*finished)->failure() != nullptr)
    return tl::unexpected(*with_.failures.broken(owned));
  return finished;
}

bool CollectiveCalls::advance(Owned owned) {
  auto& queue = this->queue(owned);
  const auto& operation = queue.front();
  auto& plan = *operation->plan;
  if (operation->is_held_back()) return false;
  if (!operation->started) {
    if (!operation->is_numbered)
      if (auto numbered = number(owned, *operation); !numbered) {
        failed(owned, std::move(numbered.error()));
        return false;
      }
    if (operation->gate) {
      with_.limits.set_gated(owned, *operation, with_.progress.now());
      with_.waits.stands().set(std::nullopt);
    }
    if (operation->premultiplication) (*operation->premultiplication)();
    if (operation->input_copy) (*operation->input_copy)();
    if (operation->widening) operation->widening->widen();
    plan.start(operation->run);
    operation->started = true;
  }
  auto moved = plan.advance();
  if (!moved) {
    failed(owned, std::move(moved.error()));
    return false;
  }
  if (plan.rests()) return operation->parts->go_on(operation->run) || *moved;
  if (!plan.done()) return *moved;
  if (operation->widening) operation->widening->narrow();
  const auto finished = queue.take_front();
  with_.record.call_ended(owned, finished->run.sequence);
  finished->end();
  return true;
}

void CollectiveCalls::failed(Owned owned, Failure failure) {
  const auto& operation = *queue(owned).front();
  if (failure.kind == ErrorKind::peer_lost)
    failure.message = fmt::format("{}, {}: {}", with_.self.name_of(operation.run, operation.label),
                                  operation.plan->standing().text(), failure.message);
  else if (failure.kind == ErrorKind::mismatch && operation.plan->different())
    return with_.comparison.ask_for_label(owned, operation, std::move(failure));
  else if (failure.kind != ErrorKind::mismatch)
    failure.message =
        fmt::format("{}: {}", with_.self.name_of(operation.run, operation.label), failure.message);
  with_.failures.failed(owned, std::move(failure));
}

}  // namespace ccoll
