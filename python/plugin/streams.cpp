// SPDX-License-Identifier: Apache-2.0
#include "streams.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <thread>

namespace ccoll::plugin {
namespace {

bool is_being_captured(const c10::Stream& stream) {
  return c10::impl::VirtualGuardImpl(stream.device_type()).isStreamCapturing(stream);
}

}  // namespace

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void drain_current_stream(at::Device device) {
  const auto stream = current_stream(device);
  if (!is_being_captured(stream))
    c10::impl::VirtualGuardImpl(device.type()).synchronizeStream(stream);
}

void use_device(at::Device device) {
  c10::impl::VirtualGuardImpl(device.type()).uncheckedSetDevice(device);
}

StreamCall::StreamCall(c10::Stream lane)
    : lane_(lane),
      from_(current_stream(lane.device())),
      is_captured_(is_being_captured(from_)),
      end_(lane.device_type()) {
  c10::Event before(lane.device_type());
  before.record(from_);
  before.block(lane);
}

cudaStream_t StreamCall::native() const {
  const c10::impl::VirtualGuardImpl guard(lane_.device_type());
  return static_cast<cudaStream_t>(guard.getStreamNativeHandle(lane_));
}

void StreamCall::end() {
  end_.record(lane_);
  has_end_ = true;
}

bool StreamCall::is_over() const noexcept {
  if (is_captured_) return true;
  try {
    return has_end_ && !is_being_captured(current_stream(lane_.device())) && end_.query();
  } catch (const std::exception&) {
    return false;
  }
}

bool StreamCall::hold_back_current() const {
  const auto current = current_stream(lane_.device());
  hold_back(current);
  return current == from_;
}

bool StreamCall::await(std::optional<std::chrono::steady_clock::time_point> until) const {
  if (is_captured_) return true;
  if (!until) {
    end_.synchronize();
    return true;
  }
  while (!is_over()) {
    if (std::chrono::steady_clock::now() >= *until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

void Streams::drain(std::chrono::steady_clock::time_point until) const {
  try {
    for (const auto& [number, lane] : lanes_)
      while (!lane.query() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
  } catch (const std::exception&) {  // CUDA itself has failed, or is at its end
  }
}

std::shared_ptr<StreamCall> Streams::begin(at::Device device, int lane) {
  auto found = lanes_.find(lane);
  if (found == lanes_.end()) {
    const auto made = c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
    found = lanes_.emplace(lane, made).first;
  }
  return std::make_shared<StreamCall>(found->second);
}

}  // namespace ccoll::plugin
