// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a communicator's calls take place in CUDA's streams. One interface, whoever makes the call:
/// the host, on memory of its own to which the stream copies (staging.hpp), or the device itself
/// (device_way.hpp). Which of the ways a call goes is known to all ranks alike.
///
/// Without CUDA's headers; in a build without CUDA there is none to be had.

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

/// The device whose memory is there, or manages it, so that the host does not simply read and write
/// it; nothing for the host's own. No context is made; nothing where CUDA is not in use.
std::optional<int> device_of(const void* address);

/// Some memory: of the device or, in calls that a device makes, of the host.
struct MemoryRange {
  std::byte* data;
  std::uint64_t bytes;
};

/// The allocation of a device that it is in, where CUDA knows one.
std::optional<MemoryRange> allocation_of(const void* address);
/// How many bytes from there on are of one allocation of a device.
std::uint64_t bytes_of_allocation_from(const void* address);

/// Whether what is put into the stream, of that device, becomes part of a graph.
Result<bool> is_captured(cudaStream_t stream, int device);
/// The device that the stream is of; nothing for a default stream, which every device has, and
/// where CUDA does not tell. `user`: the device for whose sake it is asked.
std::optional<int> device_of_stream(cudaStream_t stream, int user);

/// Told by threads of CUDA, in which nothing of CUDA may be called. Must not wait for what needs a
/// stream to go on.
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  /// The stream has come to the call: what the host reads is in memory of the host.
  virtual void reached() noexcept = 0;
  /// The same of a part of it behind the first; or some of what a DeviceToHost or a HostToDevice
  /// has copied is there.
  virtual void part_reached() noexcept {}
  /// What the call has written is where it belongs, and the stream goes on.
  virtual void passed() noexcept = 0;
};

/// Some memory of a device by which others, such as network cards, read and write it.
struct ExportedRange {
  FileDescriptor file;       ///< a dma-buf
  std::uint64_t offset = 0;  ///< of the range in it
  /// What others have written before the host lets a stream go on is seen by what stands behind
  /// that in the stream only if it waits with StreamOpRequest::flushes.
  bool needs_flush = false;
};

/// Of memory of one allocation of a device. `unsupported` where there is no such way to it, or none
/// by which streams see what others have written.
Result<ExportedRange> export_range(const MemoryRange& range);

/// What brings a send's data from the device to memory of the host, piece by piece, by the stream
/// that waits for the message. One call at a time; nothing waits. The stream does not go on, though
/// it be released, while anything is copied.
class DeviceToHost {
 public:
  virtual ~DeviceToHost() = default;
  /// From there, in order, for that rank. What was begun before is over.
  virtual void begin(std::uint32_t to, const std::byte* from, std::uint64_t bytes) = 0;
  /// Has more of it come, as far as there is room.
  virtual Status lift() = 0;
  /// What is to be lent next of what has come; empty where nothing has, or enough is lent.
  virtual std::span<const std::byte> lifted() const = 0;
  /// The first so many bytes of that are lent.
  virtual void lend(std::size_t bytes) = 0;
  /// Nobody reads any more what is lent. Whether that makes room.
  virtual bool take_back() = 0;
};

/// The same of what the host gets for a receive, to the device.
class HostToDevice {
 public:
  virtual ~HostToDevice() = default;
  /// From that rank. What was begun before is over.
  virtual void begin(std::uint32_t from) = 0;
  /// More there is never room for at once.
  virtual std::size_t most_bytes() const = 0;
  /// Where on the host so many bytes that belong `there` are to be put: the same until that is
  /// done; null where there is no room now.
  virtual std::byte* room(std::byte* there, std::size_t bytes) = 0;
  /// They are in the room.
  virtual Status fill(std::size_t bytes) = 0;
  /// Copies all that is in the room: no more comes.
  virtual Status take_off() = 0;
  /// Whether all is there that the room was filled with.
  virtual bool is_over() = 0;
};

/// How far a call is that ranks enter together.
enum class Entry : std::uint8_t {
  waiting,  ///< others have yet to come
  entered,  ///< it is in the stream
  apart,    ///< the ranks' streams are captured in graphs of their own: it is in none, and can go
            ///< another way, on all ranks
};

/// One call's way through a stream; of a captured one, each time its graph runs.
class StreamOp {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~StreamOp() = default;

  /// Puts all of it into the stream that it was made for, once. `listener` lives until the stream,
  /// or the graph, is done with it. After a failure the stream may hold some of it, and goes on
  /// once it is released.
  virtual Status enqueue(std::shared_ptr<StreamListener> listener) = 0;
  /// Whether the stream has come to it.
  virtual bool reached() const = 0;
  /// Whether the stream is done with it.
  virtual bool passed() const = 0;
  /// What CUDA says where the stream will never pass, such as an error of the caller's own kernel.
  virtual Status trouble() const = 0;

  // Of a call that the host makes:

  /// Where on the host a place in one of the ranges of a part is, until that part is over.
  virtual std::byte* on_host(const void* place, std::size_t part) const = 0;
  /// Of how many parts what the host reads is there.
  virtual std::size_t parts_reached() const { return reached() ? 1 : 0; }
  /// So many parts are over: the stream goes on with what they have written. The last one is over
  /// with release().
  virtual void end_parts(std::size_t /*count*/) {}
  /// Of the `number`-th buffer that one was asked for; lives as long as this does.
  virtual DeviceToHost* to_host(std::size_t /*number*/) { return nullptr; }
  virtual HostToDevice* to_device(std::size_t /*number*/) { return nullptr; }
  /// Lets the stream go on, once: now, or as soon as it comes to it.
  virtual void release() = 0;

  /// Instead of that, where nobody looks after it any more.
  virtual void forsake() { release(); }

  // Of a call that a device makes; the host lets nothing go on, but may end all with
  // DeviceWay::abort:

  virtual bool is_made_by_device() const { return false; }
  /// After enqueue(), until it is no longer `waiting`, or `until` has passed.
  virtual Result<Entry> enter(TimePoint /*until*/) { return Entry::entered; }
  /// Whether it counts as reached though its stream has yet to come to it.
  virtual void count_as_reached(bool /*does*/) {}
  /// Whether nobody tells the listener, so that somebody has to look at reached() and passed().
  virtual bool is_looked_at() const { return false; }
  /// Of one that has passed: whether what it has written is whole.
  virtual Status outcome() const { return {}; }
  /// How far the device says that it is, if this is the call that it makes; empty where it has not
  /// begun, or is over. Any thread may ask.
  virtual std::string standing() const { return {}; }
};

struct DeviceProgram;

/// What a range takes of the host's memory while it is there: what a copy begins with is aligned.
constexpr std::uint64_t staged_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// What is copied: of the device's memory in calls that the host makes, of the host's in those that
/// a device makes. The ranges may overlap each other, and then do so where they are copied, too.
struct Copied {
  std::vector<MemoryRange> reads;
  std::vector<MemoryRange> writes;
};

/// What a passage is asked for.
struct StreamOpRequest {
  /// One, or of a call that the host makes several, in whose order it does: while it makes one the
  /// stream copies what others beside it read and have written. No part writes what another reads.
  std::span<const Copied> parts;
  /// Nothing: one of our own, behind what the default stream has now, in which nobody else waits.
  /// Those come to their calls in the order in which they were put into their streams.
  std::optional<cudaStream_t> stream;
  bool is_captured = false;  ///< of the stream: is_captured() holds
  /// Whether it ends in the order of those of which this is said, not only after later ones.
  bool ends_in_order = true;
  /// Buffers that it needs a DeviceToHost or a HostToDevice for.
  std::span<const MemoryRange> lifted = {};
  std::span<const MemoryRange> landed = {};
  bool flushes = false;  ///< see ExportedRange; of the wait for the host

  // Of a call that a device makes:
  std::shared_ptr<const DeviceProgram> program = nullptr;
  std::byte* input = nullptr;  ///< null where there is none, and of a barrier
  std::byte* output = nullptr;
  bool in_place = false;  ///< they share memory
  /// The stream copies so many bytes of the input to memory of the host, and the device reads them
  /// there: nobody reads what the call has written.
  std::uint64_t copied_input = 0;
};

/// Any thread may call, but passages are made and put into their streams by one at a time. Lives as
/// long as a passage of it does.
class Way {
 public:
  virtual ~Way() = default;
  /// `exhausted` where there is no memory.
  virtual Result<std::shared_ptr<StreamOp>> stream_op(const StreamOpRequest& request) = 0;
};

}  // namespace ccoll::device
