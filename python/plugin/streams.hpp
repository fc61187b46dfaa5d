// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The streams of a GPU in which a group's calls take place. All goes through torch's interface of
/// devices, so one plugin serves a torch with CUDA and one without.

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <ccoll/device.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <optional>

namespace ccoll::plugin {

/// One call in a stream of its group: it begins after all that the caller's stream has so far.
class StreamCall {
 public:
  /// Makes `lane` wait for the caller's current stream.
  explicit StreamCall(c10::Stream lane);

  c10::Stream lane() const { return lane_; }
  cudaStream_t native() const;
  /// Whether the call becomes part of a graph. Nothing may be asked about its progress then.
  bool is_captured() const { return is_captured_; }

  /// Marks the end of the call: once, behind everything that belongs to it.
  void end();
  /// Whether the stream has passed the end. False also where CUDA does not say: while the caller's
  /// stream is being captured, since asking would break the capture, and after an error of CUDA's.
  bool is_over() const noexcept;
  /// Lets a stream wait for the end. Does not block the host.
  void hold_back(c10::Stream stream) const { end_.block(stream); }
  /// The same for the caller's current stream. True if the call came from that one.
  bool hold_back_current() const;
  /// Blocks the host until the end, or until then. False if the time has passed.
  bool await(std::optional<std::chrono::steady_clock::time_point> until = std::nullopt) const;

 private:
  c10::Stream lane_;
  c10::Stream from_;  ///< of the caller
  bool is_captured_;
  bool has_end_ = false;
  c10::Event end_;
};

c10::Stream current_stream(at::Device device);
/// Blocks the host until the caller's current stream is empty, unless it is being captured.
void drain_current_stream(at::Device device);
/// For a thread of the library: later calls of CUDA's make no context on another GPU.
void use_device(at::Device device);

/// Collectives have one stream. Messages have one for each peer and direction: a receive holds back
/// everything behind it in its stream.
class Streams {
 public:
  static constexpr int kCollectives = -2;

  static int sends_to(int peer) { return 2 * peer + 1; }
  static int receives_from(int peer) { return 2 * peer + 2; }  ///< kAnyRank: 0

  /// Begins a call in that stream. The caller orders the calls.
  std::shared_ptr<StreamCall> begin(at::Device device, int lane);
  /// Waits until all calls are over, until then at most.
  void drain(std::chrono::steady_clock::time_point until) const;

 private:
  std::map<int, c10::Stream> lanes_;
};

}  // namespace ccoll::plugin
