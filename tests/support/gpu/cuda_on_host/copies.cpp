// SPDX-License-Identifier: Apache-2.0

/// Copies between the devices and the host, and between devices.

#include "support/gpu/cuda_on_host/copies.hpp"

#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "support/gpu/cuda_on_host/memory.hpp"
#include "support/gpu/cuda_on_host/streams.hpp"

namespace ccoll::testing::cuda {

namespace {

/// A copy from a device's memory to a device's memory, in a stream of any device.
class DeviceCopy {
 public:
  /// Empty if one side is host memory.
  static std::optional<DeviceCopy> of(int by, const void* to, const void* from) {
    if (find(on_device, to) == nullptr || find(on_device, from) == nullptr) return std::nullopt;
    return DeviceCopy(by, to, from);
  }
  /// Whether the device can access both sides; asked when the stream reaches the copy.
  bool may_begin() const {
    for (const void* place : {to_, from_})
      if (const Stretch* there = find(on_device, place); there != nullptr && there->open_to)
        check_reach(by_, place);
    return broken_by == cudaSuccess;
  }
  /// Counts a finished copy; `seen` is its destination as this process maps it.
  void end(std::byte* seen, std::uint64_t bytes) const {
    cuda_on_host_traffic& traffic = carried[{by_, from_device_, to_device_}];
    ++traffic.copies;
    traffic.bytes += bytes;
    if (peering == kCopiesWrong && to_device_ < from_device_) *seen ^= std::byte{1};
  }
  bool hangs() const { return peering == kCopiesHang && to_device_ > from_device_; }

  /// Guarded by mu; the key is the stream's device, the source's and the destination's.
  static inline auto& carried = *new std::map<std::tuple<int, int, int>, cuda_on_host_traffic>;

 private:
  DeviceCopy(int by, const void* to, const void* from)
      : by_(by),
        to_(to),
        from_(from),
        to_device_(find(on_device, to)->device),
        from_device_(find(on_device, from)->device) {}

  int by_;
  const void* to_;
  const void* from_;
  int to_device_, from_device_;
};

/// Blocks the items behind it while copies are held.
void put_hold(cudaStream_t to) {
  put(to, [] { held_copies += holds_copies ? 1 : 0; });
  Item item;
  item.what = Item::wait;
  item.run = [] {};
  item.is_ready = [] { return !holds_copies; };
  put(to, std::move(item));
}

}  // namespace

}  // namespace ccoll::testing::cuda

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  use_current_device();
  if (width == 0 || height == 0) return cudaSuccess;
  if (to_pitch < width || from_pitch < width || to_pitch > INT32_MAX || from_pitch > INT32_MAX)
    return cudaErrorInvalidPitchValue;
  const std::lock_guard lock(mu);
  // CUDA requires one allocation on each side.
  const auto is_whole = [&](const Stretches& among, const void* place, std::size_t pitch) {
    if (!contains(among, place)) return false;
    const auto& [begin, whole] = *std::prev(among.upper_bound(place));
    return static_cast<const std::byte*>(place) + (height - 1) * pitch + width <=
           static_cast<const std::byte*>(begin) + whole.bytes;
  };
  const auto is_whole_anywhere = [&](const void* place, std::size_t pitch) {
    return is_whole(on_device, place, pitch) || is_whole(pinned, place, pitch);
  };
  const bool is_known = is_whole_anywhere(to, to_pitch) && is_whole_anywhere(from, from_pitch);
  if (!is_known || kind != cudaMemcpyDefault) return cudaErrorInvalidValue;
  auto* const there = seen(static_cast<std::byte*>(to));
  const auto* const here = seen(static_cast<const std::byte*>(from));
  if (holds_copies && !known(stream)->capture) put_hold(stream);
  ++copies;
  return put_data(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(there + row * to_pitch, here + row * from_pitch, width);
      maybe_spoil(there + row * to_pitch, width);
    }
    copied += width * height;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  use_current_device();
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(mu);
  // The device itself copies memory that it knows, when the stream reaches the copy.
  const auto is_known = [](const void* place) {
    return contains(on_device, place) || contains(pinned, place);
  };
  const auto within_one = [&](const void* place) {
    if (!contains(on_device, place)) return true;
    const auto& [begin, whole] = *std::prev(on_device.upper_bound(place));
    return static_cast<const std::byte*>(place) + bytes <=
           static_cast<const std::byte*>(begin) + whole.bytes;
  };
  if (!within_one(to) || !within_one(from)) return cudaErrorInvalidValue;
  const auto crosses = [](const void* here, const void* there) {
    return contains(pinned, here) && contains(on_device, there);
  };
  const auto counted = crosses(to, from) || crosses(from, to) ? bytes : 0;
  copies += counted > 0 ? 1 : 0;
  const bool is_by_itself = kind == cudaMemcpyDefault && is_known(to) && is_known(from);
  if (kind == cudaMemcpyDefault && !is_known(to)) kind = cudaMemcpyDeviceToHost;
  // A copy within the host returns when it is done.
  const bool waits = contains(pinned, to) && contains(pinned, from) && !known(stream)->capture;
  const auto of_devices = DeviceCopy::of(known(stream)->device, to, from);
  to = seen(static_cast<std::byte*>(to));
  from = seen(static_cast<const std::byte*>(from));
  if (is_by_itself) {
    if (holds_copies && !known(stream)->capture) put_hold(stream);
    if (of_devices && of_devices->hangs()) put_never(stream, peers_go_on);
    put_data(stream, [=] {
      if (of_devices && !of_devices->may_begin()) return;
      std::memcpy(to, from, bytes);
      maybe_spoil(static_cast<std::byte*>(to), bytes);
      copied += counted;
      if (of_devices) of_devices->end(static_cast<std::byte*>(to), bytes);
    });
    return waits ? cudaStreamSynchronize(stream) : cudaSuccess;
  }
  if (kind == cudaMemcpyDefault) return cudaErrorNotSupported;
  if (kind == cudaMemcpyHostToDevice) {
    const auto* const first = static_cast<const std::byte*>(from);
    return put_data(stream, [to, staged = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  }
  put_data(stream, [=] { std::memcpy(to, from, bytes); });
  // A copy to pageable memory is written before the call returns.
  return kind == cudaMemcpyDeviceToHost ? cudaStreamSynchronize(stream) : cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard lock(mu);
  cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  return put(stream,
             [=, there = seen(static_cast<std::byte*>(memory)), device = known(stream)->device] {
               check_reach(device, memory);
               std::memset(there, value, bytes);
             });
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}

void cuda_on_host_holds_copies(bool holds) {
  const std::lock_guard lock(mu);
  holds_copies = holds;
  held_copies = 0;
}
int cuda_on_host_held_copies() { return held_copies; }
cuda_on_host_traffic cuda_on_host_carried(int by, int from, int to) {
  const std::lock_guard lock(mu);
  return DeviceCopy::carried[{by, from, to}];
}
std::uint64_t cuda_on_host_copied() { return copied; }
std::uint64_t cuda_on_host_copies() { return copies; }

}  // extern "C"
