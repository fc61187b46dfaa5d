// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a communicator's calls take place in CUDA's streams. The interface is the same whether the
/// host or the device makes the call. The host does so on memory of its own, to which the stream
/// copies (staging.hpp); for the device see device_way.hpp. All ranks know alike which way a call
/// takes.
///
/// Needs no CUDA headers. A build without CUDA has no way of either kind.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ccoll/device.hpp"
#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::device {

/// Whether this process uses CUDA already. Neither loads nor initialises anything.
bool is_cuda_in_use();

/// The device that holds or manages the memory, so that the host does not simply read and write it;
/// empty for the host's own memory. Makes no context; empty where CUDA is not in use.
std::optional<int> device_of(const void* address);

/// A range of memory: of the device or, in calls that a device makes, of the host.
struct MemoryRange {
  std::byte* data;
  std::uint64_t bytes;
};

/// The device allocation that contains the address, where CUDA knows one.
std::optional<MemoryRange> allocation_of(const void* address);
/// How many bytes from the address on belong to one allocation of a device.
std::uint64_t bytes_of_allocation_from(const void* address);

/// Whether work put into the stream, which belongs to `device`, becomes part of a graph.
Result<bool> is_captured(cudaStream_t stream, int device);
/// The stream's device; empty for a default stream, which every device has, and where CUDA does not
/// say. `user`: the device for which the caller asks.
std::optional<int> device_of_stream(cudaStream_t stream, int user);

/// CUDA's threads call it; CUDA must not be called there. It must not wait for anything that needs
/// a stream to go on.
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  /// The stream has reached the call: the host's memory holds all that the host reads.
  virtual void reached() noexcept = 0;
  /// The stream has reached a later part of the call, or a DeviceToHost or a HostToDevice has
  /// finished a copy.
  virtual void part_reached() noexcept {}
  /// The call's results are where they belong, and the stream goes on.
  virtual void passed() noexcept = 0;
};

/// A range of device memory that others, such as network cards, read and write.
struct ExportedRange {
  FileDescriptor file;       ///< a dma-buf
  std::uint64_t offset = 0;  ///< where the range begins in the file
  /// If set, the stream must wait with StreamOpRequest::flushes before later work in it sees what
  /// others have written.
  bool needs_flush = false;
};

/// Exports memory of one allocation of a device. `unsupported` if it cannot be exported, or if
/// streams have no means to see what others have written.
Result<ExportedRange> export_range(const MemoryRange& range);

/// Copies a send's data from the device to host memory, piece by piece, in the stream that waits
/// for the message. Serves one call at a time and never blocks. Even when released, the stream does
/// not go on while a copy is in flight.
class DeviceToHost {
 public:
  virtual ~DeviceToHost() = default;
  /// Begins to copy `bytes` at `from`, in order, for rank `to`. The message before is over.
  virtual void begin(std::uint32_t to, const std::byte* from, std::uint64_t bytes) = 0;
  /// Starts as many copies as there is room for.
  virtual Status lift() = 0;
  /// The next arrived data to lend; empty if none has arrived, or if enough is lent.
  virtual std::span<const std::byte> lifted() const = 0;
  /// The first `bytes` bytes of lifted() are lent.
  virtual void lend(std::size_t bytes) = 0;
  /// All that is lent has been read. Returns whether that makes room.
  virtual bool take_back() = 0;
};

/// The opposite direction: copies received data from the host to the device.
class HostToDevice {
 public:
  virtual ~HostToDevice() = default;
  /// Begins a receive from rank `from`. The last one is over by then.
  virtual void begin(std::uint32_t from) = 0;
  /// The most that room() ever grants at once.
  virtual std::size_t most_bytes() const = 0;
  /// Where the host is to put `bytes` bytes that belong at `there`. The answer stays the same until
  /// they are filled in; null where there is no room at present.
  virtual std::byte* room(std::byte* there, std::size_t bytes) = 0;
  /// The room holds `bytes` bytes.
  virtual Status fill(std::size_t bytes) = 0;
  /// Copies all that is in the room: no more data follows.
  virtual Status take_off() = 0;
  /// Whether all copies have finished.
  virtual bool is_over() = 0;
};

/// The state of a call that all ranks enter together.
enum class Entry : std::uint8_t {
  waiting,  ///< other ranks have yet to arrive
  entered,  ///< the call is in the stream
  apart,    ///< the ranks' streams are captured in separate graphs: the call is in none of them,
            ///< and all ranks can make it another way
};

/// One call's operations in a stream; for a captured call, each time its graph runs.
class StreamOp {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~StreamOp() = default;

  /// Puts all of it into its stream, once. `listener` lives until the stream, or the graph, is done
  /// with it. After a failure the stream may hold a part of it, and goes on once it is released.
  virtual Status enqueue(std::shared_ptr<StreamListener> listener) = 0;
  /// Whether the stream has reached the operation.
  virtual bool reached() const = 0;
  /// Whether the stream is done with it.
  virtual bool passed() const = 0;
  /// CUDA's error where the stream will never pass, such as a failure of the caller's own kernel.
  virtual Status trouble() const = 0;

  // These are for a call that the host makes:

  /// The host's address of a place in one of a part's ranges; valid until that part is over.
  virtual std::byte* on_host(const void* place, std::size_t part) const = 0;
  /// The number of parts whose data the host can read.
  virtual std::size_t parts_reached() const { return reached() ? 1 : 0; }
  /// The first `count` parts are over: the stream goes on with their results. release() ends the
  /// last one.
  virtual void end_parts(std::size_t /*count*/) {}
  /// For the `number`-th buffer of `lifted`, or of `landed`; lives as long as this operation.
  virtual DeviceToHost* to_host(std::size_t /*number*/) { return nullptr; }
  virtual HostToDevice* to_device(std::size_t /*number*/) { return nullptr; }
  /// Lets the stream go on, once: at once, or as soon as it reaches the operation.
  virtual void release() = 0;

  /// In place of release(), where nobody looks after the operation any more.
  virtual void forsake() { release(); }

  // These are for a call that a device makes. The host cannot release it, but may end all calls
  // with DeviceWay::abort:

  virtual bool is_made_by_device() const { return false; }
  /// After enqueue(): waits until the call is past `waiting`, or until `until`.
  virtual Result<Entry> enter(TimePoint /*until*/) { return Entry::entered; }
  /// Sets whether the call counts as reached before its stream has reached it.
  virtual void count_as_reached(bool /*does*/) {}
  /// True if nothing calls the listener: somebody must poll reached() and passed().
  virtual bool is_looked_at() const { return false; }
  /// For an operation that has passed: whether its results are complete.
  virtual Status outcome() const { return {}; }
  /// How far the device reports that it has come, if it is making this call; empty before it begins
  /// and after it ends. Any thread may call.
  virtual std::string standing() const { return {}; }
};

struct DeviceProgram;

/// The host memory that a range takes: the start of each copy is aligned.
constexpr std::uint64_t staged_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The ranges to copy: device memory in calls that the host makes, host memory in those that a
/// device makes. Ranges may overlap each other, and their copies then overlap, too.
struct Copied {
  std::vector<MemoryRange> reads;
  std::vector<MemoryRange> writes;
};

/// Rows with gaps between them, and where they lie together while a call is made.
struct PackedRows {
  std::byte* rows = nullptr;       ///< the first one, in memory of the device or of the host
  std::uint64_t row_bytes = 0;     ///< of each
  std::uint64_t stride_bytes = 0;  ///< from the beginning of a row to the next one's
  std::uint64_t count = 1;
  std::byte* together = nullptr;  ///< `count` times `row_bytes`, in such memory as the rows are in
  bool is_on_device = false;
  bool is_read = false;     ///< brought together when the stream reaches the call
  bool is_written = false;  ///< brought apart again behind it
};

/// All such rows of a call. An operation holds it until its stream has passed.
struct Packing {
  std::vector<PackedRows> rows;
  std::vector<std::shared_ptr<const void>> rooms;  ///< the memory in which they lie together
};

/// Describes the stream operation to make.
struct StreamOpRequest {
  /// One part; or several, which the host makes in order. While it makes one, the stream copies for
  /// that one's neighbours. No part writes memory that another reads.
  std::span<const Copied> parts;
  /// If empty, a stream of our own, ordered behind the default stream's present work; nothing else
  /// waits in it. Such streams reach their calls in the order in which they were enqueued.
  std::optional<cudaStream_t> stream;
  bool is_captured = false;  ///< whether the stream is captured: is_captured() holds
  /// True if it ends in the order of all such operations; false if it may end after later ones.
  bool ends_in_order = true;
  /// Buffers that need a DeviceToHost or a HostToDevice.
  std::span<const MemoryRange> lifted = {};
  std::span<const MemoryRange> landed = {};
  bool flushes = false;  ///< see ExportedRange; the wait for the host flushes
  std::shared_ptr<const Packing> packing = nullptr;  ///< null if there is none

  // These are for a call that a device makes:
  std::shared_ptr<const DeviceProgram> program = nullptr;
  std::byte* input = nullptr;  ///< null if there is none, and for a barrier
  std::byte* output = nullptr;
  bool in_place = false;  ///< input and output share memory
  /// The stream copies so many bytes of the input to host memory, where the device reads them. So
  /// no rank reads the memory that the call writes.
  std::uint64_t copied_input = 0;
};

/// Any thread may call, but only one at a time makes operations and enqueues them. A way lives as
/// long as any of its operations.
class Way {
 public:
  virtual ~Way() = default;
  /// `exhausted` if memory runs out.
  virtual Result<std::shared_ptr<StreamOp>> stream_op(const StreamOpRequest& request) = 0;
};

}  // namespace ccoll::device
