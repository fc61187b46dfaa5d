// SPDX-License-Identifier: Apache-2.0
// Collectives that devices make by themselves. The host runs a barrier beside each, under the
// call's signature and number, once the stream has reached it. So ranks that make other calls, or
// none, are found as always, and the device is not held up.
#include <algorithm>
#include <thread>
#include <utility>

#include "comm/call/call_group.hpp"
#include "comm/progress/owner.hpp"
#include "comm/streams/streams.hpp"
#include "core/deadline.hpp"

namespace ccoll {
namespace {

/// How long a communicator that ends waits for hosts to end calls that the device has ended.
constexpr std::chrono::seconds kForHosts{1};

/// How often a thread looks while its stream waits at a call that other ranks do not make. It
/// paces the thread, by the Clock.
constexpr std::chrono::milliseconds kBetweenEntries{1};

/// Host memory among a call's buffers, which is copied.
std::vector<device::MemoryRange> host_ranges_of(const BufferView& view, std::uint64_t bytes) {
  if (bytes == 0 || view.data == nullptr || device::device_of(view.data)) return {};
  return {{view.data, bytes}};
}

}  // namespace

Result<std::optional<Work>> Streams::begin_on_device(const PackedCall& made,
                                                     const OnDevice& on_device) {
  const Call& call = made.call;
  const auto width = size_of(call.type);
  const auto in = elems_of(call, Buffer::input, with_.self.rank(), with_.self.size()) * width;
  const auto out = elems_of(call, Buffer::output, with_.self.rank(), with_.self.size()) * width;
  const auto copied_input = needs_input_copy(call) ? in : 0;
  const device::Copied copied[] = {
      {host_ranges_of(call.input, in - copied_input), host_ranges_of(call.output, out)}};
  const auto together = calls_.device_way()->is_entered_together();
  const auto prepare = [&](StreamCall& watched, const std::shared_ptr<device::StreamOp>& stream_op,
                           bool is_captured) -> std::optional<StreamedCall> {
    // One graph has all ranks' parts of it: none can be missing, or be of another call.
    if (is_captured && together) return std::nullopt;
    watched.limit_device(timeout_of(call));
    return begun_in_order({call, {.on_device = on_device.algorithm}}, watched, stream_op,
                          is_captured);
  };
  Submitted submitted;
  {
    const auto submitting = calls_.submitting();
    auto begun = submit(submitting,
                        {.parts = copied,
                         .stream = made.stream,
                         .packing = made.packing,
                         .program = on_device.program,
                         .input = call.kind == Kind::barrier ? nullptr : call.input.data,
                         .output = call.kind == Kind::barrier ? nullptr : call.output.data,
                         .in_place = call.in_place && copied_input == 0,
                         .copied_input = copied_input},
                        {std::make_shared<StreamOperation>()}, prepare);
    if (!begun) return tl::unexpected(begun.error());
    if (!together) return put(submitting, *begun, made.stream, call.label);
    if (call_group::is_open()) {
      put_off(*begun, made);
      return begun->work;
    }
    CCOLL_TRY(enqueue(submitting, *begun));
    submitted = std::move(*begun);
  }
  const Entering entering{submitted.is_captured, with_.progress.now(), limit_of(call)};
  for (;;) {
    // The wait in the stream is real, and this thread looks around between two of them.
    const auto entry = enter(*submitted.stream_op, entering, Clock::now() + kPublishAfter);
    if (!entry) return tl::unexpected(entry.error());
    if (*entry == device::Entry::apart) return std::nullopt;
    if (*entry == device::Entry::entered) return submitted.work;
  }
}

std::chrono::milliseconds Streams::timeout_of(const Call& call) const {
  return call.timeout.count() > 0 ? call.timeout : with_.self.options().timeout;
}

Clock::time_point Streams::limit_of(const Call& call) const {
  return deadline_after(timeout_of(call), with_.progress.now());
}

/// A thread that makes several ranks' calls would otherwise wait in the first one for the others.
void Streams::put_off(const Submitted& submitted, const PackedCall& made) {
  struct Entrance {
    Submitted submitted;
    PackedCall made;
    std::string label;
    std::optional<Entering> entering = std::nullopt;  ///< once it is enqueued
    // From then on:
    std::shared_ptr<TimedMutex> mutex = nullptr;  ///< of a communicator that may end before
    std::unique_lock<TimedMutex> lock = {};
  };
  const auto off =
      std::make_shared<Entrance>(Entrance{submitted, made, std::string(made.call.label)});
  off->made.call.label = off->label;
  const auto go_on = [this, off](Clock::time_point until) -> Result<bool> {
    if (with_.progress.is_forked()) {
      off->lock.release();  // it is the parent's
      return tl::unexpected(with_.failures.news().value());
    }
    if (!off->entering) {
      off->mutex = calls_.device_submission();
      off->lock = std::unique_lock(*off->mutex, until);
      if (!off->lock) return false;
      CCOLL_TRY(enqueue(calls_.submitting(), off->submitted));
      off->entering = {off->submitted.is_captured, with_.progress.now(), limit_of(off->made.call)};
    }
    const auto entry = enter(*off->submitted.stream_op, *off->entering, until);
    if (!entry) return tl::unexpected(entry.error());
    if (*entry != device::Entry::apart) return *entry == device::Entry::entered;
    return begin_by_host(off->made).map([](const Work&) { return true; });
  };
  const auto told = [go_on, tell = with_.self.teller(off->label)](Clock::time_point until) {
    return go_on(until).map_error(tell);
  };
  call_group::put_off({.communicator = with_.progress.weak(with_.self),
                       .stream = made.stream,
                       .go_on = told,
                       .together = with_.self.id()});
}

Result<device::Entry> Streams::enter(device::StreamOp& stream_op, const Entering& entering,
                                     Clock::time_point until) {
  const auto entry = stream_op.enter(until);
  if (entry && *entry != device::Entry::waiting) {
    // All ranks have made it: from here on only streams are awaited.
    stream_op.count_as_reached(false);
    return entry;
  }
  const bool differs = !entry && entry.error().kind == ErrorKind::mismatch && !entering.is_captured;
  std::optional<Failure> why;
  {
    const Owner owned(with_.progress);
    const auto now = with_.progress.now();
    if (const auto usable = with_.failures.usable(owned); !usable) {
      why = usable.error();
    } else {
      // From here on its time limit counts, and ranks that make other calls are looked for.
      if (!calls_.may_come_from_graphs() && (differs || now - entering.since >= kPublishAfter))
        stream_op.count_as_reached(true);
      const bool has_begun = !entering.is_captured && stream_op.reached();
      // The barrier beside it finds which calls differ, and what their callers call them.
      if (differs && has_begun) return device::Entry::entered;
      const bool may_wait = (entry || differs) && (has_begun || now < entering.limit);
      if (!may_wait) why = not_entered(owned, entry, entering.is_captured);
    }
  }
  if (why) {
    // The call's part in its stream is over soon, and behind any work launched meanwhile.
    (void)stream_op.enter(Clock::now());
    return tl::unexpected(std::move(*why));
  }
  if (differs) std::this_thread::sleep_until(std::min(until, Clock::now() + kBetweenEntries));
  return device::Entry::waiting;
}

Failure Streams::not_entered(Owned owned, const Result<device::Entry>& entry, bool is_captured) {
  // If another rank has ended it for all, that rank tells why; here it is an earlier failure.
  const bool is_told = !entry && calls_.device_way()->is_aborted();
  if (is_told || (!entry && entry.error().kind == ErrorKind::mismatch)) {
    with_.failures.break_with(owned, entry.error(), true);
  } else if (!entry) {
    with_.failures.threw(owned, entry.error());
  } else {
    with_.failures.break_with(owned,
                              {ErrorKind::timed_out,
                               fmt::format("not all ranks of the process have made a call {}",
                                           is_captured ? "while it was captured"
                                                       : "that this rank's stream has not reached"),
                               std::nullopt},
                              true);
  }
  return is_told ? with_.failures.usable(owned).error() : *with_.failures.broken(owned);
}

void Streams::end_what_devices_made(Owned owned) {
  // Begins calls that streams have reached.
  with_.progress.operations().advance(owned, Attention::awaited);
  with_.progress.wait(owned, {with_.progress.weak(), calls_.left_behind(owned)},
                      with_.progress.now() + kForHosts);
}

bool Streams::advance(Owned owned) {
  std::optional<Failure> trouble;
  const bool moved = calls_.advance(owned, trouble);
  if (trouble) device_failed(owned, *trouble);
  return moved;
}

void Streams::device_failed(Owned owned, const Failure& failure) {
  // The communicator may have heard of this failure meanwhile.
  if (with_.failures.usable(owned)) with_.failures.break_with(owned, failure, true);
}

}  // namespace ccoll
