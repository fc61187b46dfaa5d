// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Device memory and streams, for tests that are linked with CUDA or with cuda_on_host.

#include <cuda_runtime_api.h>

#include <bit>
#include <cstddef>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ccoll::testing {

inline void check_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error));
}

/// Device memory for tests, kept for reuse: cudaFree waits for all streams of the process, so ranks
/// that are threads would wait for one another in it.
class DevicePool {
 public:
  /// Memory of the current device.
  static void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex());
    auto& free = of(current(), bytes);
    if (free.empty()) {
      void* memory = nullptr;
      // The relaxed mode permits this while another rank of the process captures.
      auto mode = cudaStreamCaptureModeRelaxed;
      cudaThreadExchangeStreamCaptureMode(&mode);
      const auto error = cudaMalloc(&memory, std::bit_ceil(bytes));
      cudaThreadExchangeStreamCaptureMode(&mode);
      check_cuda(error, "cudaMalloc");
      return memory;
    }
    void* const memory = free.back();
    free.pop_back();
    return memory;
  }
  static void give_back(void* memory, std::size_t bytes, int device) {
    const std::lock_guard lock(mutex());
    of(device, bytes).push_back(memory);
  }
  static int current() {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    return device;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::vector<void*>& of(int device, std::size_t bytes) {
    using Free = std::map<std::pair<int, std::size_t>, std::vector<void*>>;
    static auto* const free = new Free;  // guarded by mutex()
    return (*free)[{device, std::bit_ceil(bytes)}];
  }
};

template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const std::vector<T>& values) : count_(values.size()) {
    data_ = static_cast<T*>(DevicePool::take(bytes()));
    check_cuda(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
               "copying to the device");
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(other.count_), device_(other.device_) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  ~DeviceBuffer() {
    if (data_ != nullptr) DevicePool::give_back(data_, bytes(), device_);
  }

  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    check_cuda(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
               "copying from the device");
    return values;
  }

 private:
  std::size_t bytes() const { return (count_ + 1) * sizeof(T); }

  T* data_ = nullptr;
  std::size_t count_;
  int device_ = DevicePool::current();
};

class OwnedStream {
 public:
  explicit OwnedStream(unsigned flags = cudaStreamNonBlocking) {
    check_cuda(cudaStreamCreateWithPriority(&stream_, flags, 0), "making a stream");
  }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream() { cudaStreamDestroy(stream_); }

  operator cudaStream_t() const { return stream_; }  // NOLINT: as CUDA's own take it
  void wait() const { check_cuda(cudaStreamSynchronize(stream_), "waiting for a stream"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// The work that `body` puts into the stream, as a graph.
class Graph {
 public:
  template <typename Body>
  Graph(cudaStream_t stream, Body body) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "beginning a capture");
    body();
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &graph), "ending a capture");
    check_cuda(cudaGraphInstantiate(&made_, graph, 0), "instantiating a graph");
    check_cuda(cudaGraphDestroy(graph), "destroying a graph");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(made_); }

  void launch(cudaStream_t stream) const {
    check_cuda(cudaGraphLaunch(made_, stream), "launching a graph");
  }

 private:
  cudaGraphExec_t made_ = nullptr;
};

}  // namespace ccoll::testing
