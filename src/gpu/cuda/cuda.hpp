// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CUDA's errors as failures, and owners for what CUDA hands out. Needs CUDA's headers, as do the
/// headers that include this (driver.hpp, leases.hpp, pinned.hpp): a header that serves builds
/// without CUDA includes none of them.

#include <cuda_runtime_api.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "core/result.hpp"
#include "kernels/device/cuda_words.hpp"

namespace ccoll::device {

/// How long kernels and streams have to end once they are asked to.
inline constexpr std::chrono::seconds kGrace{5};

/// The failure of `what`, by CUDA's `error`. This clears CUDA's last error, which the caller's own
/// check must not find.
inline Failure cuda_failure(cudaError_t error, std::string_view what) {
  (void)cudaGetLastError();
  const bool is_full = error == cudaErrorMemoryAllocation;
  const bool is_lacking = error == cudaErrorNotSupported || error == cudaErrorNoDevice ||
                          error == cudaErrorInvalidDevice || error == cudaErrorInsufficientDriver ||
                          error == cudaErrorNoKernelImageForDevice ||
                          error == cudaErrorCooperativeLaunchTooLarge;
  return {is_full      ? ErrorKind::exhausted
          : is_lacking ? ErrorKind::unsupported
                       : ErrorKind::internal,
          fmt::format("{}: {} ({})", what, words_of(error), cudaGetErrorName(error)), std::nullopt};
}

inline Status cuda_status(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  return tl::unexpected(cuda_failure(error, what));
}
/// The same, with a text that is made only on failure.
template <std::invocable Words>
Status cuda_status(cudaError_t error, const Words& what) {
  if (error == cudaSuccess) return {};
  return tl::unexpected(cuda_failure(error, what()));
}

/// Moves a Result's value to `to`, or passes its failure on.
template <typename T>
Status put(Result<T> made, T& to) {
  if (!made) return tl::unexpected(std::move(made.error()));
  to = std::move(*made);
  return {};
}

inline Result<int> attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  CCOLL_TRY(cuda_status(cudaDeviceGetAttribute(&value, which, device),
                        fmt::format("asking what GPU {} can do", device)));
  return value;
}

/// Whether the GPU has a context in this process; true if that is not known.
bool has_context(int device);

/// Sets the calling thread's current device until the end of a scope. A device without a context
/// does not become current again: that would give it one, with memory that nobody asked for. So a
/// thread that has used no GPU yet stays with this one.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    status_ = cuda_status(cudaGetDevice(&before_), "asking for the current GPU");
    if (!status_) return;
    // It is set even if it is current: a thread that has used no GPU yet has no context, which the
    // driver's own calls need and do not make.
    status_ =
        cuda_status(cudaSetDevice(device), [=] { return fmt::format("using GPU {}", device); });
    changed_ = status_ && before_ != device;
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (changed_ && has_context(before_)) cudaSetDevice(before_);
  }
  const Status& status() const { return status_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  Status status_;
};

/// Until the end of a scope the calling thread may allocate and wait for its own streams, even
/// while some stream is being captured.
class BesideCaptures {
 public:
  BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

struct CudaDeleter {
  void operator()(CUstream_st* stream) const { cudaStreamDestroy(stream); }
  void operator()(CUevent_st* event) const { cudaEventDestroy(event); }
};
using OwnStream = std::unique_ptr<CUstream_st, CudaDeleter>;
using OwnEvent = std::unique_ptr<CUevent_st, CudaDeleter>;

struct DeviceDeleter {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<std::byte, DeviceDeleter>;

struct HostDeleter {
  void operator()(std::byte* memory) const { cudaFreeHost(memory); }
};
/// Host memory that devices map, too.
using MappedMemory = std::unique_ptr<std::byte, HostDeleter>;

/// A stream of the current device; it and the legacy default stream do not wait for each other.
inline Result<OwnStream> make_stream() {
  int least = 0;
  int greatest = 0;
  CCOLL_TRY(cuda_status(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                        "asking for the priorities of streams"));
  cudaStream_t stream = nullptr;
  CCOLL_TRY(cuda_status(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
                        "making a stream"));
  return OwnStream(stream);
}

inline Result<OwnEvent> make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  CCOLL_TRY(cuda_status(cudaEventCreateWithFlags(&event, flags), "making an event"));
  return OwnEvent(event);
}

/// Whether a stream has reached the event, which is of `device`. A query while another device is
/// current would give that one a context. On a thread that has used no device yet, that is GPU 0.
inline Result<bool> has_happened(const OwnEvent& event, int device) {
  const CurrentDevice current(device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  const auto error = cudaEventQuery(event.get());
  if (error == cudaSuccess) return true;
  if (error != cudaErrorNotReady)
    return tl::unexpected(cuda_failure(error, "what was put into a stream"));
  (void)cudaGetLastError();
  return false;
}

/// Allocates at least a byte, so that there is an address.
inline Result<DeviceMemory> allocate_on_device(std::uint64_t bytes) {
  void* memory = nullptr;
  CCOLL_TRY(cuda_status(cudaMalloc(&memory, bytes == 0 ? 1 : bytes),
                        fmt::format("allocating {} bytes on a GPU", bytes)));
  return DeviceMemory(static_cast<std::byte*>(memory));
}

inline Result<MappedMemory> allocate_mapped(std::uint64_t bytes) {
  void* memory = nullptr;
  CCOLL_TRY(cuda_status(
      cudaHostAlloc(&memory, bytes == 0 ? 1 : bytes, cudaHostAllocMapped | cudaHostAllocPortable),
      fmt::format("allocating {} bytes that a GPU maps", bytes)));
  return MappedMemory(static_cast<std::byte*>(memory));
}

/// Where the current device sees mapped memory.
inline Result<std::byte*> on_device(std::byte* mapped) {
  void* there = nullptr;
  CCOLL_TRY(cuda_status(cudaHostGetDevicePointer(&there, mapped, 0),
                        "asking where a GPU sees memory of the host"));
  return static_cast<std::byte*>(there);
}

}  // namespace ccoll::device
