// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A collective in a stream as the host makes it: which of its memory is the device's, and where
/// that is on the host meanwhile. A large one is made in parts, so that it needs memory for only
/// some of it, and the stream copies some parts while the host makes another. A part is some
/// consecutive windows of the plan, which shows neither on the wire nor in the results. Other ranks
/// may make the call in other parts, or in one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/call/call.hpp"
#include "engine/buffer_view.hpp"
#include "engine/plan.hpp"
#include "engine/windows.hpp"
#include "gpu/way.hpp"

namespace ccoll {

/// A call's buffer.
class StreamBuffer {
 public:
  /// `elems` of `width` bytes.
  StreamBuffer(const BufferView& view, std::uint64_t elems, std::size_t width);

  bool has_device_memory() const;
  /// All elements.
  std::vector<Stretch> whole() const;
  /// The device's memory in some of it.
  std::vector<device::MemoryRange> device_ranges(std::span<const Stretch> stretches) const;
  /// The most host memory that those stretches take.
  std::uint64_t staged_bytes(std::span<const Stretch> stretches) const;
  /// Those stretches as part of a call, with host memory in the device's place.
  BufferView on_host(std::span<const Stretch> stretches, const device::StreamOp& stream_op,
                     std::size_t part) const;

 private:
  struct Segment {
    std::uint64_t first;
    std::uint64_t end;
    std::byte* data;
    bool is_of_device;
  };
  /// use(first element, how many, where, whether that is the device's): one piece after another.
  template <typename Use>
  void each_piece(std::span<const Stretch> stretches, Use use) const;

  std::vector<Segment> segments_;
  std::size_t width_;
};

/// A call's parts on the host.
struct StreamParts {
  struct Part {
    BufferView input;
    BufferView output;
    std::uint64_t end = UINT64_MAX;  ///< of its windows
  };
  std::shared_ptr<device::StreamOp> stream_op;
  std::vector<Part> parts;
};

/// How far the host is in a call with parts.
class PartedRun {
 public:
  /// Begins with the first part.
  PartedRun(std::shared_ptr<const StreamParts> parts, PlanRun& run);
  /// For a run that rests: ends its part, and begins the next if that has come. Returns whether
  /// either is news.
  bool go_on(PlanRun& run);

 private:
  void begin_part(PlanRun& run) const;

  std::shared_ptr<const StreamParts> parts_;
  std::size_t part_ = 0;
  bool is_over_ = false;  ///< the present part
};

/// A call that is to come into a stream; in one part at first.
class DividedCall {
 public:
  DividedCall(const Call& call, Rank rank, Rank size);

  /// Whether parts pay off with that many bytes of host memory for it.
  bool is_large(std::uint64_t room) const;
  /// Makes it in parts of its plan's windows, small enough that two fit into such memory, if
  /// windows are small enough.
  void divide(const Windows& windows, std::uint64_t room);

  bool has_device_memory() const {
    return input_.has_device_memory() || output_.has_device_memory();
  }
  std::vector<device::Copied> copied() const;
  StreamParts on_host(std::shared_ptr<device::StreamOp> stream_op) const;

 private:
  struct Part {
    std::vector<Stretch> input;
    std::vector<Stretch> output;
    std::uint64_t end = UINT64_MAX;
  };
  /// The most host memory that such a part takes.
  std::uint64_t bytes_of(const Part& part) const;

  StreamBuffer input_;
  StreamBuffer output_;
  bool in_place_;
  std::vector<Part> parts_;
};

}  // namespace ccoll
