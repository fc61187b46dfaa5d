// SPDX-License-Identifier: Apache-2.0
// GPU memory, with a stream per GPU for every rank of this process that uses it.
#include <cuda_runtime.h>

#include <bit>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memory.hpp"

namespace conformance {

namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// While it lives, its thread's calls do not disturb other threads' captures.
class BesideCaptures {
 public:
  BesideCaptures() { check(cudaThreadExchangeStreamCaptureMode(&mode_), "exchanging the mode"); }
  ~BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Device memory, returned to CUDA only at the end: cudaFree waits for all streams of a device, and
/// so for other ranks' calls there that wait for this one.
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (const auto& [data, kind] : all_) cudaFree(data);
  }

  /// Takes memory of the calling thread's current device.
  void* take(std::size_t bytes) {
    Kind kind{0, std::bit_ceil(bytes)};
    check(cudaGetDevice(&kind.first), "cudaGetDevice");
    const std::lock_guard lock(mutex_);
    auto& free = free_[kind];
    if (!free.empty()) {
      void* const data = free.back();
      free.pop_back();
      return data;
    }
    void* data = nullptr;
    check(cudaMalloc(&data, kind.second), "cudaMalloc");
    all_.emplace(data, kind);
    return data;
  }
  void give_back(void* data) {
    const std::lock_guard lock(mutex_);
    free_[all_.at(data)].push_back(data);
  }

 private:
  using Kind = std::pair<int, std::size_t>;  ///< device and bytes

  std::mutex mutex_;
  std::map<void*, Kind> all_;                ///< guarded by mutex_
  std::map<Kind, std::vector<void*>> free_;  ///< guarded by mutex_
};

/// Threads of several ranks may use it concurrently.
class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(int ranks) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    for (int local = 0; local < ranks; ++local) {
      devices_.push_back(local % count);
      streams_.push_back(nullptr);
      use(local);
      check(cudaStreamCreateWithPriority(&streams_.back(), cudaStreamNonBlocking, 0),
            "cudaStreamCreateWithPriority");
    }
  }
  ~DeviceMemory() override {
    for (auto* const stream : streams_) cudaStreamDestroy(stream);
  }

  void use(int local) override {
    check(cudaSetDevice(devices_[static_cast<std::size_t>(local)]), "cudaSetDevice");
  }
  const int* devices(int) override { return devices_.data(); }
  void* allocate(std::size_t bytes) override {
    const BesideCaptures beside;
    return pool_.take(bytes);
  }
  void free(void* data) override { pool_.give_back(data); }
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    const BesideCaptures beside;
    check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    const BesideCaptures beside;
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
  }
  cudaStream_t stream(int local) override { return streams_[static_cast<std::size_t>(local)]; }
  void wait(cudaStream_t stream) override {
    const BesideCaptures beside;
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  bool is_of_devices() const override { return true; }
  void capture(cudaStream_t stream) override {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
  }
  void launch(cudaStream_t stream) override {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    const BesideCaptures beside;
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphLaunch(ready, stream), "cudaGraphLaunch");
    // A launched graph still completes.
    check(cudaGraphExecDestroy(ready), "cudaGraphExecDestroy");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }

 private:
  Pool pool_;
  std::vector<int> devices_;
  std::vector<cudaStream_t> streams_;
};

}  // namespace

std::unique_ptr<Memory> device_memory(int ranks) { return std::make_unique<DeviceMemory>(ranks); }

}  // namespace conformance
