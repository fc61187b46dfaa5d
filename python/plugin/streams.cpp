// SPDX-License-Identifier: Apache-2.0
#include "streams.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace ccoll::plugin {
namespace {

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

bool is_captured(const c10::Stream& stream) {
  return c10::impl::VirtualGuardImpl(stream.device_type()).isStreamCapturing(stream);
}

}  // namespace

StreamCall::StreamCall(c10::Stream lane)
    : lane_(lane),
      is_captured_(plugin::is_captured(current_stream(lane.device()))),
      end_(lane.device_type()) {
  c10::Event before(lane.device_type());
  before.record(current_stream(lane.device()));
  before.block(lane);
}

cudaStream_t StreamCall::native() const {
  const c10::impl::VirtualGuardImpl guard(lane_.device_type());
  return static_cast<cudaStream_t>(guard.getStreamNativeHandle(lane_));
}

void StreamCall::end() { end_.record(lane_); }

bool StreamCall::is_over() const {
  if (is_captured_) return true;
  return !plugin::is_captured(current_stream(lane_.device())) && end_.query();
}

void StreamCall::hold_back_current() const { end_.block(current_stream(lane_.device())); }

void StreamCall::await() const {
  if (!is_captured_) end_.synchronize();
}

std::shared_ptr<StreamCall> Streams::begin(at::Device device, int lane) {
  auto found = lanes_.find(lane);
  if (found == lanes_.end())
    found =
        lanes_.emplace(lane, c10::impl::VirtualGuardImpl(device.type()).getNewStream(device)).first;
  return std::make_shared<StreamCall>(found->second);
}

}  // namespace ccoll::plugin
