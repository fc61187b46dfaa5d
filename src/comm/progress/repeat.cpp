// SPDX-License-Identifier: Apache-2.0
// A blocking collective like an earlier one, as programs make them most often: its checks and
// preparations still hold, so nothing is allocated, looked up or timed. If it does not end at once,
// it becomes an ordinary operation.
#include "comm/api/arguments.hpp"
#include "comm/api/call_group.hpp"
#include "comm/api/extent.hpp"
#include "comm/api/owner.hpp"
#include "system/log.hpp"

namespace ccoll {

void Communicator::Implementation::remember(Owned owned, const Call& call,
                                            std::shared_ptr<CollectiveOperation> operation) {
  const bool plain = call.op.form() == Reduction::Form::plain && !call.ragged() &&
                     !call.coalesced && !call.algorithm && !call.shown_as &&
                     call.timeout.count() == 0 && call.label.empty() && !operation->widening &&
                     !operation->input_copy && !has_rows(call.input) && !has_rows(call.output) &&
                     !log().tells(LogLevel::trace);
  if (!plain) return;
  const auto width = size_of(call.type);
  const PlainCall made{call.kind, call.type, call.op.op(), call.root, call.count};
  repeats_(owned).remember(made, elems_of(call, Buffer::input, rank(), size()) * width,
                           elems_of(call, Buffer::output, rank(), size()) * width,
                           std::move(operation));
}

bool Communicator::Implementation::repeat(const Outline& asked, const Blocks& blocks,
                                          const CallOptions& options) {
  const auto& [input, output] = blocks;
  if (asked.op.form() != Reduction::Form::plain || has_options(options) || call_group::is_open() ||
      streams_.are_for(input.data, output.data))
    return false;
  const auto extent = fitting_extent(asked.kind, input, output, {asked.is_root(), asked.size});
  if (!extent) return false;
  const PlainCall call{asked.kind,    extent->type, asked.op.op(), asked.root,
                       extent->count, input.data,   output.data};
  // Another thread may close the communicator meanwhile, for which it needs the flag: only a thread
  // that does not have the flag yet must hold on to the communicator.
  std::shared_ptr<Implementation> held;
  auto flag = try_own();
  if (!flag) [[unlikely]] {
    held = shared_from_this();
    flag = wait_to_own();
  }
  const Owner owned(*this, *flag);
  const auto last = repeats_(owned).find(call);
  if (last.operation == nullptr) return false;
  if (!calm(owned) || last.operation->use_count() > 1) return false;
  auto& operation = **last.operation;
  auto& run = operation.run;
  if (record(owned, run.signature)) [[unlikely]]
    compare_or_raise(owned);
  run.sequence = collectives_(owned).take_number();
  run.in_place = last.in_place;
  if (call.kind != Kind::barrier) {
    run.input.data = static_cast<std::byte*>(const_cast<void*>(call.input));
    run.output.data = static_cast<std::byte*>(call.output);
  }
  turns_.begin();
  operation.plan->start(run);
  const auto polled = poll(owned, *operation.plan, options.unfinished != nullptr);
  if (polled == Plan::Polled::done) [[likely]]
    return true;
  held = shared_from_this();
  auto queued = value_or_raise(queue_repeated(owned, *last.operation, polled));
  if (options.unfinished != nullptr)
    *options.unfinished = Work(std::move(queued));
  else
    value_or_raise(finish(owned, *queued));
  return true;
}

void Communicator::Implementation::compare_or_raise(Owned owned) {
  if (const auto compared = comparison_.compare_with_ahead(); !compared) {
    break_with(owned, compared.error(), true);
    raise(for_caller(*verdict_.broken()));
  }
}

Plan::Polled Communicator::Implementation::poll(Owned owned, Plan& plan, bool is_brief) {
  const auto poll = [&] {
    // A long call saves no time here, and other work may want to go on beside it.
    auto polled = plan.poll();
    if (!plan.is_short() || polled > Plan::Polled::moved) return std::optional(polled);
    auto patience = is_brief ? SpinPolicy::brief()
                             : SpinPolicy::short_one(planner_.is_oversubscribed(), in_memory_);
    while (polled <= Plan::Polled::moved && !wanted() && patience.keep_polling())
      polled = plan.poll();
    return std::optional(polled);
  };
  return guarded(owned, poll).value_or(Plan::Polled::failed);
}

Result<std::shared_ptr<Work::State>> Communicator::Implementation::queue_repeated(
    Owned owned, const std::shared_ptr<CollectiveOperation>& repeated, Plan::Polled polled) {
  if (verdict_.broken()) return tl::unexpected(*verdict_.broken());
  // The call has begun: without memory to wait for it, the communicator breaks.
  auto queued = guarded(owned, [&] {
    auto& operation = *repeated;
    operation.done.store(false, std::memory_order_relaxed);
    operation.endings.begin_again();
    operation.sought = false;
    operation.long_wait = LongWait::no;
    operation.stands = {};
    set_limit(operation, Clock::now(), {});
    operation.publish_at = operation.begun + kPublishAfter;
    auto work = std::make_shared<Work::State>(Work::State{shared_from_this(), {repeated}});
    collectives_(owned).push_back(repeated);
    if (polled == Plan::Polled::failed) collective_failed(owned, operation.plan->take_failure());
    return std::optional(std::move(work));
  });
  if (!queued) return tl::unexpected(*verdict_.broken());
  return std::move(*queued);
}

}  // namespace ccoll
