// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a call of the host takes place in a stream: the stream copies what the call reads to memory
/// of the host, tells, waits until it is let go on, copies what the call has written to the device,
/// and tells again. Nobody waits for the device meanwhile. What the call is, this does not know.
///
/// Memory of the host is a ring of a fixed size. A call that finds it full waits for room in its
/// stream, not in its caller, until calls before it have passed; so only calls that come to their
/// ends in the order in which their passages were made have a part in it. What may end after later
/// ones, is larger than the ring, or captured, has memory apart, which is kept for the next that
/// needs some.
///
/// Without CUDA's headers; in a build without CUDA there is none to be had.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "ccoll/memory.hpp"
#include "ccoll/stream.hpp"
#include "core/result.hpp"

namespace ccoll::device {

/// Whether this process uses CUDA already. Neither loads nor initialises anything.
bool is_cuda_in_use();

/// The device whose memory is there, or manages it, so that the host does not simply read and write
/// it; nothing for the host's own. No context is made; nothing where CUDA is not in use.
std::optional<int> device_of(const void* address);

/// How many bytes from there on are of one allocation of a device.
std::uint64_t bytes_of_allocation_from(const void* address);

/// Whether what is put into the stream becomes part of a graph.
Result<bool> is_captured(cudaStream_t stream);

/// Some of the device's memory.
struct MemoryRange {
  std::byte* data;
  std::uint64_t bytes;
};

/// Told by threads of CUDA, in which nothing of CUDA may be called. Must not wait for what needs a
/// stream to go on.
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  /// What the call reads is in memory of the host.
  virtual void reached() noexcept = 0;
  /// What the call has written is in the device's memory, and the stream goes on.
  virtual void passed() noexcept = 0;
};

/// One call's way through a stream; of a captured one, each time its graph runs.
class Passage {
 public:
  virtual ~Passage() = default;

  /// Where on the host a place in one of the call's ranges is, for as long as the passage lives.
  virtual std::byte* on_host(const void* place) const = 0;
  /// Puts all of it into the stream that it was made for, once. `listener` lives until the stream,
  /// or the graph, is done with it. After a failure the stream may hold some of it, and goes on
  /// once it is released.
  virtual Status enqueue(std::shared_ptr<StreamListener> listener) = 0;
  /// Whether the stream has come to it.
  virtual bool reached() const = 0;
  /// Whether the stream is done with it.
  virtual bool passed() const = 0;
  /// Lets the stream go on, once: now, or as soon as it comes to it.
  virtual void release() = 0;
  /// What CUDA says where the stream will never pass, such as an error of the caller's own kernel.
  virtual Status trouble() const = 0;
};

/// What a passage is asked for.
struct PassageRequest {
  /// They may overlap each other, and then do so on the host, too.
  std::span<const MemoryRange> reads;
  std::span<const MemoryRange> writes;
  /// Nothing: one of our own, behind what the default stream has now, in which nobody else waits.
  /// Those come to their calls in the order in which they were put into their streams.
  std::optional<cudaStream_t> stream;
  bool is_captured = false;  ///< of the stream: is_captured() holds
  /// Whether it ends in the order of those of which this is said, not only after later ones.
  bool ends_in_order = true;
};

/// Any thread may call, but passages are made and put into their streams by one at a time. Lives as
/// long as a passage of it does.
class Staging {
 public:
  virtual ~Staging() = default;
  /// `exhausted` where there is no memory.
  virtual Result<std::shared_ptr<Passage>> passage(const PassageRequest& request) = 0;
  virtual int device() const = 0;
  /// Of the host's memory, what it has now.
  virtual std::uint64_t held_bytes() const = 0;
};

struct StagingOptions {
  int device = 0;
  std::size_t bytes = 64 << 20;  ///< of the ring
  /// Where memory comes from; it may throw.
  std::function<Memory(std::size_t bytes)> allocate;
};

/// One that is new, or that nobody uses any more: CUDA gets memory back only when none of the
/// process is in use. `unsupported` where there is no such device, in CUDA's words, or no CUDA in
/// this build; `exhausted`.
Result<std::shared_ptr<Staging>> make_staging(StagingOptions options);

}  // namespace ccoll::device
