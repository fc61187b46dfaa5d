// SPDX-License-Identifier: Apache-2.0

/// The devices, their contexts and peers, and the runtime's calls about them.

#include "support/gpu/cuda_on_host/device.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "support/gpu/cuda_on_host/streams.hpp"

namespace ccoll::testing::cuda {

int device_count = [] {
  const char* const count = std::getenv("CCOLL_GPU_COUNT");
  return count != nullptr ? std::atoi(count) : 1;
}();

namespace {

auto& contexts = *new std::set<int>;  // guarded by mu; the devices that have a context
std::atomic<std::size_t> kernels_run = 0;

}  // namespace

bool has_fault(const char* which) {
  const char* const fault = std::getenv("CCOLL_GPU_FAULT");
  return fault != nullptr && std::strcmp(fault, which) == 0;
}

void Mutex::lock() {
  if (in_host_function) {
    std::fputs("CUDA was called in a function of the host that a stream runs\n", stderr);
    std::abort();
  }
  mutex_.lock();
  ++depth_;
}

void Mutex::unlock() {
  --depth_;
  mutex_.unlock();
}

void Mutex::rest() {
  const int depth = depth_;
  for (int i = 0; i < depth; ++i) unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  for (int i = 0; i < depth; ++i) lock();
}

void use_current_device() {
  const std::lock_guard lock(mu);
  contexts.insert(current_device);
  has_current_context = true;
}

void maybe_spoil(std::byte* out, std::uint64_t bytes) {
  static const char* const named = std::getenv("CCOLL_WRONG_BITS");
  static const unsigned each = named == nullptr ? 0 : std::max(std::atoi(named), 2);
  if (each > 0 && bytes != 0 && ++kernels_run % each == each / 2)
    out[chance() % bytes] ^= std::byte{1};
}

}  // namespace ccoll::testing::cuda

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  const std::lock_guard lock(mu);
  *can = device != peer && peering != kPeersApart ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  const std::lock_guard lock(mu);
  if (peer < 0 || peer >= device_count || peer == current_device) return cudaErrorInvalidDevice;
  use_current_device();
  if (peering == kPeersApart) return cudaErrorPeerAccessUnsupported;
  if (peering == kPeersTooMany) return cudaErrorTooManyPeers;
  const bool is_new = peers.emplace(current_device, peer).second;
  return is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (has_fault("old")) return cudaErrorInsufficientDriver;
  const std::lock_guard lock(mu);
  *count = device_count;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(mu);
  if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
  current_device = device;
  use_current_device();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = has_fault("old") ? 12040 : CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const std::lock_guard lock(mu);
  if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
  *properties = {};
  properties->uuid.bytes[0] = static_cast<char>(device);
  properties->pciBusID = device;
  std::strcpy(properties->name, "a GPU on the host");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int /*device*/) {
  *value = which == cudaDevAttrMultiProcessorCount ? multiprocessors.load() : 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(mu);
  use_current_device();
  return drain([] {
    return std::ranges::all_of(streams, [](const CUstream_st* stream) {
      return stream->device != current_device || stream->queue.empty();
    });
  });
}
cudaError_t cudaGetLastError() { return broken_by; }
const char* cudaGetErrorString(cudaError_t /*error*/) { return "an error of the host's GPU"; }
const char* cudaGetErrorName(cudaError_t error) {
  static thread_local char name[32];
  std::snprintf(name, sizeof name, "%d", static_cast<int>(error));
  return name;
}

void cuda_on_host_fails(cudaError_t error) { broken_by = error; }
void cuda_on_host_has_multiprocessors(int count) { multiprocessors = count; }
void cuda_on_host_has_peers(cuda_on_host_peers how) {
  const std::lock_guard lock(mu);
  *peers_go_on = true;
  peers_go_on = std::make_shared<std::atomic<bool>>(false);
  peering = how;
}
void cuda_on_host_has(int devices) {
  const std::lock_guard lock(mu);
  device_count = devices;
  contexts.clear();
}
bool cuda_on_host_has_context(int device) {
  const std::lock_guard lock(mu);
  return contexts.contains(device);
}

}  // extern "C"
