// SPDX-License-Identifier: Apache-2.0
// How a communicator's calls get into CUDA streams: whether they belong there, where their buffers
// are on the host then, and their places among the communicator's other calls.
#include <algorithm>

#include "comm/call/call_group.hpp"
#include "comm/progress/background.hpp"
#include "comm/progress/owner.hpp"
#include "comm/streams/stream_messages.hpp"
#include "comm/streams/streams.hpp"
#include "core/deadline.hpp"

namespace ccoll {
namespace {

/// Larger messages are copied piece by piece. At this size, the copies before and after a message
/// take about as long as having a piece copied.
constexpr std::size_t kMostWhole = 256 << 10;
/// Beyond that, messages larger than this are copied piece by piece.
constexpr std::size_t kMostWholeOfMany = 16 << 10;

Status check_stream_of(cudaStream_t stream, int device) {
  const auto its = device::device_of_stream(stream, device);
  if (!its || *its == device) return {};
  return fail(ErrorKind::invalid_argument,
              "the stream is of GPU {}: expected a stream of GPU {}, which the rank has (one that "
              "was made while that was the current GPU)",
              *its, device);
}

Status check_place(std::optional<int> its, int device) {
  if (!its || *its == device) return {};
  return fail(ErrorKind::invalid_argument,
              "a buffer is memory of GPU {}: expected memory of GPU {}, which the rank has, or of "
              "the host",
              *its, device);
}

/// `begin`: the GPU in whose memory it begins.
Status check_end_of(const device::MemoryRange& range, std::optional<int> begin) {
  const auto last = reinterpret_cast<std::uintptr_t>(range.data) + range.bytes - 1;
  if (device::device_of(reinterpret_cast<const void*>(last)) == begin) return {};
  return fail(ErrorKind::invalid_argument,
              "a buffer of {} bytes begins in memory of GPU {} and ends elsewhere: expected all of "
              "it there",
              range.bytes, begin.value_or(0));
}

/// A kernel that reads or writes outside a GPU's memory ends all that the process has there.
Status check_buffers(const Call& call, Rank rank, Rank size, int device) {
  const auto width = size_of(call.type);
  const device::MemoryRange buffers[] = {
      {call.input.data, elems_of(call, Buffer::input, rank, size) * width},
      {call.output.data, elems_of(call, Buffer::output, rank, size) * width}};
  for (const auto& buffer : buffers) {
    if (buffer.bytes == 0) continue;
    const auto begin = device::device_of(buffer.data);
    if (!begin) continue;
    CCOLL_TRY(check_place(begin, device));
    CCOLL_TRY(check_end_of(buffer, begin));
  }
  return {};
}

bool has_device_memory(const Call& call, Rank rank, Rank size) {
  const auto is_on_device = [&](const BufferView& view, Buffer which) {
    if (elems_of(call, which, rank, size) == 0) return false;
    if (view.segments.empty()) return device::device_of(view.data).has_value();
    return std::ranges::any_of(view.segments, [](const auto& segment) {
      return device::device_of(segment.data).has_value();
    });
  };
  return is_on_device(call.input, Buffer::input) || is_on_device(call.output, Buffer::output);
}

/// A pre-multiplied sum's factor, where it is yet to come in memory of a GPU.
std::optional<device::MemoryRange> factor_range_of(const Call& call) {
  const auto* const place = static_cast<const std::byte*>(call.op.factor_place());
  if (place == nullptr || !device::device_of(place)) return std::nullopt;
  return device::MemoryRange{const_cast<std::byte*>(place), size_of(call.type)};
}

}  // namespace

Status check_device_of(const void* data, int device) {
  return check_place(device::device_of(data), device);
}

Streams::Streams(const With& with)
    : with_(with),
      calls_(with.under_way.in_streams()),
      knows_devices_(with.self.options().device.ordinal != kHost || device::is_cuda_in_use()) {}

bool Streams::are_for(const void* input, const void* output) const {
  if (!knows_devices_ || with_.progress.is_forked()) return false;
  return with_.device_programs.has_way() || device::device_of(input) || device::device_of(output);
}

bool Streams::are_for(const Call& call) const {
  if (!knows_devices_ || with_.progress.is_forked()) return false;
  if (with_.device_programs.has_way() && suits_devices(call)) return true;
  if (call.op.factor_place() && device::device_of(call.op.factor_place())) return true;
  return has_device_memory(call, with_.self.rank(), with_.self.size());
}

bool Streams::are_for(std::span<const MessageRequest> requests) const {
  if (!knows_devices_ || with_.progress.is_forked()) return false;
  if (calls_.have_messages_to_post()) return true;
  return std::ranges::any_of(requests, [](const MessageRequest& request) {
    return request.block.count > 0 && device::device_of(request.block.data);
  });
}

Result<device::Staging*> Streams::staging_for(const device::StreamOpRequest& request) {
  // If the rank has declared no device, the memory's device counts.
  std::optional<int> device;
  if (with_.self.options().device.ordinal != kHost) device = with_.self.options().device.ordinal;
  const auto check = [&](std::span<const device::MemoryRange> ranges) -> Status {
    for (const auto& range : ranges) {
      if (!device) device = device::device_of(range.data);
      if (device) CCOLL_TRY(check_device_of(range.data, *device));
    }
    return {};
  };
  for (const auto& part : request.parts) {
    CCOLL_TRY(check(part.reads));
    CCOLL_TRY(check(part.writes));
  }
  CCOLL_TRY(check(request.lifted));
  CCOLL_TRY(check(request.landed));
  // Host messages may stand behind some with device memory.
  if (!device && !request.stream) device = calls_.device();
  if (!device)
    return fail(ErrorKind::invalid_argument,
                "a stream is given, and this rank's data are on the host: expected a GPU's number "
                "as DeviceOptions::ordinal");
  const auto staging = calls_.staging(*device);
  if (!staging) return tl::unexpected(staging.error());
  if ((*staging)->device() != *device)
    return fail(ErrorKind::invalid_argument,
                "a buffer is memory of GPU {}, and earlier calls used GPU {}: expected one GPU "
                "for all calls of a rank",
                *device, (*staging)->device());
  return *staging;
}

Result<std::shared_ptr<device::StreamOp>> Streams::stream_op(device::StreamOpRequest& request) {
  const auto staging = staging_for(request);
  if (!staging) return tl::unexpected(staging.error());
  if (request.stream) CCOLL_TRY(check_stream_of(*request.stream, (*staging)->device()));
  // Without a stream, the call waits for the default stream's present work.
  const auto captured = device::is_captured(request.stream.value_or(nullptr), (*staging)->device());
  if (!captured) return tl::unexpected(captured.error());
  request.is_captured = request.stream && *captured;
  if (request.program) return calls_.device_way()->stream_op(request);
  return (*staging)->stream_op(request);
}

Result<Streams::Submitted> Streams::submit(const Submitting& /*submitting*/,
                                           device::StreamOpRequest request, Operations shown,
                                           const Prepare& prepare) {
  CCOLL_TRY(with_.progress.may_wait());
  auto stream_op = caught([&] { return this->stream_op(request); });
  if (!stream_op) return tl::unexpected(not_begun(std::move(stream_op.error())));
  const bool is_captured = request.is_captured;
  // A graph's call has nobody to tell how it went.
  if (is_captured) shown.clear();
  const auto call =
      std::make_shared<StreamCall>(with_.progress.weak(calls_), *stream_op, std::move(shown));
  const auto state =
      std::make_shared<Work::State>(Work::State{with_.progress.weak(), call->shown()});
  const auto begin = prepare(*call, *stream_op, is_captured);
  {
    const Owner owned(with_.progress);
    CCOLL_TRY(with_.failures.usable(owned));
    with_.progress.watch_streams(owned);
    if (!is_captured) calls_.add(owned, call);
    if (begin) {
      auto begun = with_.collective_calls.begin(owned, begin->call, begin->in_stream);
      if (!begun) return tl::unexpected(begun.error());
      call->began(owned, std::move((*begun)->operations));
    }
    with_.progress.settle(owned);
  }
  return Submitted{Work(state), call, *stream_op, is_captured};
}

Status Streams::enqueue(const Submitting& /*submitting*/, const Submitted& submitted) {
  const auto put = caught([&] { return submitted.stream_op->enqueue(submitted.call); });
  if (put) return {};
  if (submitted.is_captured && !submitted.stream_op->is_made_by_device())
    return tl::unexpected(put.error());
  const Owner owned(with_.progress);
  CCOLL_TRY(with_.failures.usable(owned));
  with_.failures.threw(owned, put.error());
  return tl::unexpected(*with_.failures.broken(owned));
}

Result<Work> Streams::put(const Submitting& submitting, const Submitted& submitted,
                          std::optional<cudaStream_t> stream, std::string_view label) {
  if (!call_group::has_put_off()) {
    CCOLL_TRY(enqueue(submitting, submitted));
    return submitted.work;
  }
  const auto enter_stream = [this, submitted]() -> Result<bool> {
    if (with_.progress.is_forked()) return tl::unexpected(with_.failures.news().value());
    CCOLL_TRY(enqueue(calls_.submitting(), submitted));
    const Owner owned(with_.progress);
    return with_.failures.usable(owned).map([] { return true; });
  };
  const auto told = [enter_stream, tell = with_.self.teller(label)](Clock::time_point) {
    return enter_stream().map_error(tell);
  };
  call_group::put_off(
      {.communicator = with_.progress.weak(with_.self), .stream = stream, .go_on = told});
  return submitted.work;
}

Result<Work> Streams::begin(Call call, std::optional<cudaStream_t> stream) {
  if (with_.progress.is_forked()) return tl::unexpected(with_.failures.news().value());
  const auto made = pack(call, stream);
  if (!made) return tl::unexpected(made.error());
  const auto& packing = *made;
  if (!with_.device_programs.has_way() || !suits_devices(call))
    return begin_by_host({std::move(call), packing, stream});
  CCOLL_TRY(check_buffers(call, with_.self.rank(), with_.self.size(),
                          with_.self.options().device.ordinal));
  // A call that is put off locks when its turn comes: this thread may hold the lock for an earlier
  // one.
  std::unique_lock lock(*calls_.device_submission(), std::defer_lock);
  if (!call_group::has_put_off() && !lock.try_lock_until(deadline_after(timeout_of(call))))
    return fail(
        ErrorKind::timed_out,
        "the previous call, which another thread of this rank made, was not submitted in time");
  // The first lock is not enough: a call that a group has put off may enter its stream without it,
  // and a way must not load a program meanwhile (gpu/way.hpp).
  const auto on_device = with_.device_programs.program_for(calls_.submitting(), call);
  if (!on_device) return tl::unexpected(on_device.error());
  if (on_device->program) {
    auto begun = begin_on_device({call, packing, stream}, *on_device);
    if (!begun) return tl::unexpected(std::move(begun.error()));
    if (*begun) return std::move(**begun);
  }
  return begin_by_host({std::move(call), packing, stream});
}

Result<std::shared_ptr<const device::Packing>> Streams::pack(Call& call,
                                                             std::optional<cudaStream_t> stream) {
  if (!has_rows(call.input) && !has_rows(call.output)) return nullptr;
  // A device that makes the call has no use for rows of the host, either.
  const bool is_devices = with_.device_programs.has_way() && suits_devices(call);
  return packed(stream, [&](Packer& packer) {
    return packer.pack(call, with_.self.rank(), with_.self.size(), is_devices);
  });
}

Result<std::shared_ptr<const device::Packing>> Streams::packed(
    std::optional<cudaStream_t> stream, const std::function<Status(Packer&)>& pack) {
  CCOLL_TRY(with_.progress.may_wait());
  const auto room = [&](std::vector<device::MemoryRange> ranges,
                        std::uint64_t bytes) -> Result<std::shared_ptr<std::byte>> {
    const auto submitting = calls_.submitting();
    const device::Copied copied{.reads = std::move(ranges), .writes = {}};
    const auto staging = staging_for({.parts = {&copied, 1}, .stream = stream});
    if (!staging) return tl::unexpected(staging.error());
    return (*staging)->room(bytes);
  };
  auto made = caught([&] {
    Packer packer;
    return pack(packer).and_then([&] { return packer.finish(room); });
  });
  if (!made) return tl::unexpected(not_begun(std::move(made.error())));
  return made;
}

/// If only this rank lacks something, the others would wait for it.
Failure Streams::not_begun(Failure failure) {
  if (failure.kind == ErrorKind::invalid_argument) return failure;
  const Owner owned(with_.progress);
  if (const auto usable = with_.failures.usable(owned); !usable) return usable.error();
  with_.failures.threw(owned, failure);
  return *with_.failures.broken(owned);
}

Result<Work> Streams::begin_by_host(PackedCall made) {
  Call& call = made.call;
  const auto submitting = calls_.submitting();
  const auto divided = in_parts(call);
  if (!divided) return tl::unexpected(divided.error());
  auto copied = divided->copied();
  const auto factor = factor_range_of(call);
  if (factor) CCOLL_TRY(check_end_of(*factor, device::device_of(factor->data)));
  if (factor) copied.front().reads.push_back(*factor);
  const auto prepare = [&](StreamCall& watched, const std::shared_ptr<device::StreamOp>& stream_op,
                           bool is_captured) -> std::optional<StreamedCall> {
    auto parts = std::make_shared<StreamParts>(divided->on_host(stream_op));
    call.input = parts->parts.front().input;
    call.output = parts->parts.front().output;
    if (factor)
      call.op = Reduction::premultiplied_sum_at(stream_op->on_host(factor->data, 0), call.type);
    StreamedCall streamed{call, {}};
    if (parts->parts.size() > 1) streamed.in_stream.parts = std::move(parts);
    return begun_in_order(std::move(streamed), watched, stream_op, is_captured);
  };
  auto submitted =
      submit(submitting, {.parts = copied, .stream = made.stream, .packing = made.packing},
             {std::make_shared<StreamOperation>()}, prepare);
  if (!submitted) return tl::unexpected(std::move(submitted.error()));
  return put(submitting, *submitted, made.stream, call.label);
}

Result<DividedCall> Streams::in_parts(const Call& call) {
  DividedCall divided(call, with_.self.rank(), with_.self.size());
  for (const auto& whole : divided.copied())
    for (const auto* const ranges : {&whole.reads, &whole.writes})
      for (const auto& range : *ranges)
        CCOLL_TRY(check_end_of(range, device::device_of(range.data)));
  // Products, widened elements and input copies take host memory for the whole call anyway.
  const bool may_be =
      call.op.form() != Reduction::Form::premultiplied_sum && !needs_input_copy(call);
  if (!may_be || !divided.is_large(with_.self.options().device.staging_bytes)) return divided;
  const Owner owned(with_.progress);
  if (!with_.failures.usable(owned)) return divided;
  const auto plan = with_.failures.guarded(owned, [&] {
    return std::optional(with_.collective_calls.plan_for(owned, call, signature_of(call)));
  });
  // Without a plan the call fails as soon as it begins.
  if (plan && *plan && !is_widened(call, (**plan)->algorithm(), with_.self.size()))
    divided.divide((**plan)->windows(call.block_counts, call.output_counts),
                   with_.self.options().device.staging_bytes);
  return divided;
}

std::optional<StreamedCall> Streams::begun_in_order(
    StreamedCall made, StreamCall& watched, const std::shared_ptr<device::StreamOp>& stream_op,
    bool is_captured) {
  if (!is_captured) {
    made.in_stream.gate = stream_op;
    return made;
  }
  made.in_stream.from_graph = true;
  calls_.come_from_graphs();
  watched.begin_when_reached(
      [this, made, label = std::string(made.call.label)](Owned owned) mutable {
        made.call.label = label;
        return with_.collective_calls.begin(owned, made.call, made.in_stream)
            .map([](const auto& begun) { return std::move(begun->operations); });
      });
  return std::nullopt;
}

Result<Work> Streams::begin(std::vector<std::shared_ptr<MessageOperation>> operations,
                            std::chrono::milliseconds timeout, std::optional<cudaStream_t> stream) {
  if (with_.progress.is_forked()) return tl::unexpected(with_.failures.news().value());
  const bool have_rows = std::ranges::any_of(
      operations, [](const auto& operation) { return operation->row_bytes > 0; });
  Result<std::shared_ptr<const device::Packing>> packing;
  if (have_rows) {
    packing = packed(stream, [&](Packer& packer) -> Status {
      for (const auto& operation : operations) CCOLL_TRY(packer.pack(*operation));
      return {};
    });
    if (!packing) return tl::unexpected(packing.error());
  }
  // Held throughout: a message may end only after one that is called later.
  const auto submitting = calls_.submitting();
  bool needs_flush = false;
  for (const auto& operation : operations) {
    const auto buffer = buffer_of(*operation);
    if (const auto begin = buffer.bytes > 0 ? device::device_of(buffer.data) : std::nullopt)
      CCOLL_TRY(check_end_of(buffer, begin));
  }
  StreamMessages messages(operations, [&](MessageOperation& operation) {
    return with_.self.options().device.direct_messages && make_direct(operation, needs_flush);
  });
  const auto bytes = messages.whole_bytes();
  // If there is none, submit() reports it.
  const auto staging = caught([&] { return staging_for(messages.request(stream)); });
  if (staging && (bytes > kMostWhole || !(*staging)->has_block(bytes))) {
    auto in_pieces =
        messages.in_pieces(std::max(with_.self.options().eager_limit, kMostWholeOfMany));
    if ((*staging)->suits_pieces(in_pieces.request(stream))) messages = std::move(in_pieces);
  }
  Operations shown;
  for (const auto& operation : operations) {
    shown.push_back(std::make_shared<StreamOperation>());
    shown.back()->received = operation->received;
  }
  const auto prepare = [&](StreamCall& watched, const std::shared_ptr<device::StreamOp>& stream_op,
                           bool /*is_captured*/) -> std::optional<StreamedCall> {
    messages.give(stream_op);
    watched.begin_when_reached([this, operations, timeout](Owned owned) {
      // Make new ones each time: a graph comes again.
      std::vector<std::shared_ptr<MessageOperation>> copies;
      for (const auto& operation : operations) copies.push_back(MessageOperation::like(*operation));
      return with_.message_calls.begin(owned, copies, timeout).map([](const auto& work) {
        return std::move(work->operations);
      });
    });
    if (!stream) watched.stand_before_others(calls_.messages_to_post());
    return std::nullopt;
  };
  auto request = messages.request(stream);
  request.flushes = needs_flush;
  request.packing = *packing;
  auto submitted = submit(submitting, request, std::move(shown), prepare);
  if (!submitted) return tl::unexpected(std::move(submitted.error()));
  return put(submitting, *submitted, stream, operations.empty() ? "" : operations.front()->label);
}

Status Streams::run(const Call& call) {
  {
    const Owner owned(with_.progress);
    CCOLL_TRY(with_.collective_calls.alone(owned, call));
    with_.under_way.collectives(owned).block({signature_of(call), std::nullopt});
  }
  // Not a Blocked: the stream's call needs the flag.
  const struct Unblock {
    const With& with;
    ~Unblock() {
      const Owner owned(with.progress);
      with.under_way.collectives(owned).unblock();
    }
  } unblock{with_};
  auto work = begin(call, std::nullopt);
  if (!work) return tl::unexpected(work.error());
  work->wait();
  return {};
}

}  // namespace ccoll
