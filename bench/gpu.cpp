// SPDX-License-Identifier: Apache-2.0
#include "gpu.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/device/cuda.hpp"

namespace ccoll::bench {

namespace {

void check(cudaError_t error, std::string_view what) {
  value_or_throw(device::cuda_status(error, what));
}

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

class CudaGpu final : public Gpu {
 public:
  explicit CudaGpu(int number) : number_(number) {
    check(cudaSetDevice(number), fmt::format("using GPU {}", number));
    stream_ = value_or_throw(device::make_stream());
  }
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;
  ~CudaGpu() override = default;

  int number() const override { return number_; }
  cudaStream_t stream() const override { return stream_.get(); }
  void wait() override { check(cudaStreamSynchronize(stream_.get()), "waiting for the stream"); }

  Memory allocate(std::uint64_t bytes) override {
    const device::BesideCaptures beside;  // of other ranks of the process
    auto made = device::allocate_on_device(bytes);
    if (!made) {
      throw Error(made.error().kind,
                  fmt::format("{}: give a smaller -e or fewer ranks", made.error().message));
    }
    unused_.reserve(++allocated_);
    return {made->release(), GiveBack{this}};
  }
  void free_unused() noexcept override {
    const device::BesideCaptures beside;
    allocated_ -= unused_.size();
    unused_.clear();
  }

  void copy_there(std::byte* there, const std::byte* here, std::uint64_t bytes) override {
    copy(there, here, bytes, cudaMemcpyHostToDevice);
  }
  void copy_here(std::byte* here, const std::byte* there, std::uint64_t bytes) override {
    copy(here, there, bytes, cudaMemcpyDeviceToHost);
  }

  std::function<void()> capture(const std::function<void()>& body) override;

 private:
  void give_back(std::byte* memory) noexcept override { unused_.emplace_back(memory); }

  void copy(std::byte* to, const std::byte* from, std::uint64_t bytes, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "copying a rank's buffer");
    wait();
  }

  const int number_;
  device::OwnStream stream_;
  std::size_t allocated_ = 0;                 ///< with those that are unused
  std::vector<device::DeviceMemory> unused_;  ///< has room for all that was allocated
};

std::function<void()> CudaGpu::capture(const std::function<void()>& body) {
  cudaGraph_t captured = nullptr;
  check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
        "beginning a graph");
  try {
    body();
  } catch (...) {
    // The stream is as it was, and what has failed is the body.
    if (cudaStreamEndCapture(stream_.get(), &captured) == cudaSuccess) cudaGraphDestroy(captured);
    throw;
  }
  check(cudaStreamEndCapture(stream_.get(), &captured), "ending a graph");
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph> graph(captured);
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, graph.get(), 0), "instantiating a graph");
  const std::shared_ptr<std::remove_pointer_t<cudaGraphExec_t>> launched(
      made, [](cudaGraphExec_t it) { cudaGraphExecDestroy(it); });
  return [launched, stream = stream_.get()] {
    check(cudaGraphLaunch(launched.get(), stream), "launching a graph");
  };
}

}  // namespace

Result<int> count_gpus() {
  // As many of the device's queues as there can be: streams that share one wait for one another,
  // and so would ranks that are threads. CUDA reads it once, when it is first used.
  static const int set = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  (void)set;
  int count = 0;
  CCOLL_TRY(device::cuda_status(cudaGetDeviceCount(&count), "looking for GPUs"));
  if (count < 1) return fail(ErrorKind::unsupported, "looking for GPUs: CUDA finds none");
  return count;
}

std::unique_ptr<Gpu> open_gpu(int local_rank) {
  return std::make_unique<CudaGpu>(local_rank % value_or_throw(count_gpus()));
}

}  // namespace ccoll::bench
