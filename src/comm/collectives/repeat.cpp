// SPDX-License-Identifier: Apache-2.0
// A blocking collective like an earlier one, as programs make them most often: its checks and
// preparations still hold, so nothing is allocated, looked up or timed. If it does not end at once,
// it becomes an ordinary operation.
#include "comm/call/arguments.hpp"
#include "comm/call/extent.hpp"
#include "comm/collectives/collective_calls.hpp"
#include "comm/progress/owner.hpp"
#include "comm/progress/spin_policy.hpp"
#include "system/log.hpp"

namespace ccoll {

void CollectiveCalls::remember(Owned /*owned*/, const Call& call,
                               std::shared_ptr<CollectiveOperation> operation) {
  const bool plain = call.op.form() == Reduction::Form::plain && !call.ragged() &&
                     !call.coalesced && !call.algorithm && !call.shown_as &&
                     call.timeout.count() == 0 && call.label.empty() && !operation->widening &&
                     !operation->input_copy && !has_rows(call.input) && !has_rows(call.output) &&
                     !log().tells(LogLevel::trace);
  if (!plain) return;
  const auto& self = with_.self;
  const auto width = size_of(call.type);
  const PlainCall made{call.kind, call.type, call.op.op(), call.root, call.count};
  repeats_.remember(made, elems_of(call, Buffer::input, self.rank(), self.size()) * width,
                    elems_of(call, Buffer::output, self.rank(), self.size()) * width,
                    std::move(operation));
}

inline Plan::Polled CollectiveCalls::poll(Owned owned, Plan& plan, bool is_brief) {
  const auto poll = [&] {
    // A long call saves no time here, and other work may want to go on beside it.
    auto polled = plan.poll();
    if (!plan.is_short() || polled > Plan::Polled::moved) return std::optional(polled);
    auto patience = is_brief ? SpinPolicy::brief()
                             : SpinPolicy::short_one(with_.planner.is_oversubscribed(),
                                                     with_.planner.shares_memory());
    while (polled <= Plan::Polled::moved && !with_.progress.is_wanted() && patience.keep_polling())
      polled = plan.poll();
    return std::optional(polled);
  };
  return with_.failures.guarded(owned, poll).value_or(Plan::Polled::failed);
}

bool CollectiveCalls::repeat(const Outline& asked, const Blocks& blocks,
                             const CallOptions& options) {
  const auto& [input, output] = blocks;
  if (asked.op.form() != Reduction::Form::plain || has_options(options)) return false;
  const auto extent = fitting_extent(asked.kind, input, output, {asked.is_root(), asked.size});
  if (!extent) return false;
  const PlainCall call{asked.kind,    extent->type, asked.op.op(), asked.root,
                       extent->count, input.data,   output.data};
  // Another thread may close the communicator meanwhile, for which it needs the flag: only a thread
  // that does not have the flag yet must hold on to the communicator.
  std::shared_ptr<Progress> held;
  auto flag = with_.progress.try_own();
  if (!flag) [[unlikely]] {
    held = with_.progress.weak().lock();
    flag = with_.progress.wait_to_own();
  }
  const Owner owned(with_.progress, *flag, with_.under_way);
  const auto last = repeats_.find(call);
  if (last.operation == nullptr) return false;
  if (!with_.failures.is_calm(owned) || last.operation->use_count() > 1) return false;
  auto& operation = **last.operation;
  auto& run = operation.run;
  if (record(owned, run.signature)) [[unlikely]]
    compare_or_raise(owned);
  run.sequence = queue(owned).take_number();
  run.in_place = last.in_place;
  if (call.kind != Kind::barrier) {
    run.input.data = static_cast<std::byte*>(const_cast<void*>(call.input));
    run.output.data = static_cast<std::byte*>(call.output);
  }
  with_.progress.begin(owned);
  operation.plan->start(run);
  const auto polled = poll(owned, *operation.plan, options.unfinished != nullptr);
  if (polled == Plan::Polled::done) [[likely]]
    return true;
  held = with_.progress.weak().lock();
  const auto& self = with_.self;
  auto queued = queue_repeated(owned, *last.operation, polled);
  if (options.unfinished != nullptr) {
    *options.unfinished = Work(self.value_or_raise(std::move(queued)));
    with_.progress.settle(owned);
  } else {
    const Collectives::Blocked blocked(queue(owned), {run.signature, run.sequence});
    self.value_or_raise(over(owned, with_.progress.finish(owned, std::move(queued))));
  }
  return true;
}

void CollectiveCalls::compare_or_raise(Owned owned) {
  if (const auto compared = with_.comparison.compare_with_ahead(); !compared) {
    auto& failures = with_.failures;
    failures.break_with(owned, compared.error(), true);
    raise(with_.self.for_caller(*failures.broken(owned)));
  }
}

Result<std::shared_ptr<Work::State>> CollectiveCalls::queue_repeated(
    Owned owned, const std::shared_ptr<CollectiveOperation>& repeated, Plan::Polled polled) {
  auto& failures = with_.failures;
  if (failures.broken(owned)) return tl::unexpected(*failures.broken(owned));
  // The call has begun: without memory to wait for it, the communicator breaks.
  auto queued = failures.guarded(owned, [&] {
    auto& operation = *repeated;
    operation.done.store(false, std::memory_order_relaxed);
    operation.endings.begin_again();
    with_.limits.set(owned, operation, with_.progress.now(), {});
    auto work = std::make_shared<Work::State>(Work::State{with_.progress.weak(), {repeated}});
    queue(owned).push_back(repeated);
    if (polled == Plan::Polled::failed) failed(owned, operation.plan->take_failure());
    return std::optional(std::move(work));
  });
  if (!queued) return tl::unexpected(*failures.broken(owned));
  return std::move(*queued);
}

}  // namespace ccoll
