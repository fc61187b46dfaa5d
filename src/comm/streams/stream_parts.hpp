// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A collective in a stream as the host makes it: which of its memory is the device's, and where
/// that is on the host meanwhile. A large one is made in parts, so that memory for some of it does,
/// and that the stream copies for some parts while the host makes another. A part is some windows
/// of the plan, one after another: of that nothing is seen on the wire, nor in the results. Other
/// ranks may make it in other parts, or in one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/api/call.hpp"
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
  /// All of it.
  std::vector<Stretch> whole() const;
  /// The device's memory in some of it.
  std::vector<device::MemoryRange> device_ranges(std::span<const Stretch> stretches) const;
  /// What that takes of the host's memory, at most.
  std::uint64_t staged_bytes(std::span<const Stretch> stretches) const;
  /// Some of it, as part of a call: the host's memory is in the device's place.
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

/// Of a call with its parts: how far the host is.
class PartedRun {
 public:
  /// Begins with the first.
  PartedRun(std::shared_ptr<const StreamParts> parts, PlanRun& run);
  /// Of a run that rests: its part is over, and the next begins if that has come. Whether either is
  /// news.
  bool go_on(PlanRun& run);

 private:
  void begin_part(PlanRun& run) const;

  std::shared_ptr<const StreamParts> parts_;
  std::size_t part_ = 0;
  bool is_over_ = false;  ///< the part
};

/// A call that is to come into a stream: in one part at first.
class DividedCall {
 public:
  DividedCall(const Call& call, Rank rank, Rank size);

  /// Whether parts pay off where there are so many bytes of memory for it on the host.
  bool is_large(std::uint64_t room) const;
  /// Makes it in parts of its plan's windows, few enough that two have a place in such memory, if
  /// there are any so small.
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
  /// Most that such a part takes on the host.
  std::uint64_t bytes_of(const Part& part) const;

  StreamBuffer input_;
  StreamBuffer output_;
  bool in_place_;
  std::vector<Part> parts_;
};

}  // namespace ccoll
