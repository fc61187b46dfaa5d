// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/gpu.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/measure/data.hpp"
#include "bench/measure/pattern_kernels.hpp"
#include "gpu/cuda/cuda.hpp"

namespace ccoll::bench {

namespace {

void check(cudaError_t error, std::string_view what) {
  value_or_throw(device::cuda_status(error, what));
}

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

/// Device memory beside the buffers: the number of wrong elements, then one period of the pattern.
constexpr std::size_t kCountBytes = sizeof(std::uint64_t);
constexpr std::size_t kScratchBytes = kCountBytes + kPeriod * sizeof(std::uint64_t);

class CudaGpu final : public Gpu {
 public:
  explicit CudaGpu(int number) : number_(number) {
    check(cudaSetDevice(number), fmt::format("using GPU {}", number));
    stream_ = value_or_throw(device::make_stream());
    scratch_ = value_or_throw(device::allocate_on_device(kScratchBytes));
    for (device::OwnEvent& event : events_)
      event = value_or_throw(device::make_event(cudaEventDefault));
    // Load the kernels first: loading may wait for all streams, and some of them may wait for this
    // rank.
    for (const void* kernel : {fill_kernel(), count_wrong_kernel()}) {
      cudaFuncAttributes ignored = {};
      check(cudaFuncGetAttributes(&ignored, kernel), "loading kernels");
    }
  }
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;
  ~CudaGpu() override = default;

  int number() const override { return number_; }
  cudaStream_t stream() const override { return stream_.get(); }
  void wait() override { check(cudaStreamSynchronize(stream_.get()), "waiting for the stream"); }

  Memory allocate(std::uint64_t bytes) override {
    const device::BesideCaptures beside;  // captures of other ranks of the process
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

  void fill(std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
            std::span<const std::byte> period, std::uint64_t first) override {
    run(fill_kernel(), data, elems, elem_bytes, period, first);
  }
  std::uint64_t count_wrong(std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
                            std::span<const std::byte> period, std::uint64_t first) override {
    return run(count_wrong_kernel(), data, elems, elem_bytes, period, first);
  }

  std::vector<double> time(std::uint64_t calls, bool singly,
                           const std::function<void()>& put) override;
  std::function<void()> capture(const std::function<void()>& body) override;

 private:
  void give_back(std::byte* memory) noexcept override { unused_.emplace_back(memory); }

  /// Returns the kernel's count.
  std::uint64_t run(const void* kernel, std::byte* data, std::uint64_t elems,
                    std::size_t elem_bytes, std::span<const std::byte> period, std::uint64_t first);
  void record(std::size_t event) {
    check(cudaEventRecord(events_[event].get(), stream_.get()), "taking a time in a stream");
  }
  double us_between(std::size_t begin, std::size_t end) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, events_[begin].get(), events_[end].get()),
          "asking for a time in a stream");
    return 1e3 * double(ms);
  }

  const int number_;
  device::OwnStream stream_;
  device::DeviceMemory scratch_;
  std::array<device::OwnEvent, kCallsInStream + 1> events_;
  std::size_t allocated_ = 0;                 ///< includes the unused ones
  std::vector<device::DeviceMemory> unused_;  ///< has room for all allocated ones
};

std::uint64_t CudaGpu::run(const void* kernel, std::byte* data, std::uint64_t elems,
                           std::size_t elem_bytes, std::span<const std::byte> period,
                           std::uint64_t first) {
  if (elems == 0) return 0;
  constexpr std::uint64_t kThreads = 256, kMostBlocks = 2048;
  std::array<std::byte, kScratchBytes> scratch{};
  std::ranges::copy(period, scratch.begin() + kCountBytes);
  PatternRun arguments{.data = data,
                       .elems = elems,
                       .elem_bytes = static_cast<std::uint32_t>(elem_bytes),
                       .first = first,
                       .period = scratch_.get() + kCountBytes,
                       .period_elems = static_cast<std::uint32_t>(period.size() / elem_bytes),
                       .wrong = reinterpret_cast<std::uint64_t*>(scratch_.get())};
  void* each[] = {&arguments};
  const auto blocks = std::min(kMostBlocks, (elems - 1) / kThreads + 1);
  check(cudaMemcpyAsync(scratch_.get(), scratch.data(), kCountBytes + period.size(),
                        cudaMemcpyHostToDevice, stream_.get()),
        "copying a pattern to a GPU");
  check(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), each, 0,
                         stream_.get()),
        "launching a kernel on a rank's buffer");
  std::uint64_t counted = 0;
  check(
      cudaMemcpyAsync(&counted, scratch_.get(), kCountBytes, cudaMemcpyDeviceToHost, stream_.get()),
      "copying a count from a GPU");
  wait();
  return counted;
}

std::vector<double> CudaGpu::time(std::uint64_t calls, bool singly,
                                  const std::function<void()>& put) {
  std::vector<double> times(1);
  for (std::uint64_t done = 0; done < calls;) {
    const auto now = static_cast<std::size_t>(std::min(kCallsInStream, calls - done));
    record(0);
    for (std::size_t i = 1; i <= now; i++) {
      put();
      if (singly || i == now) record(i);
    }
    wait();
    times[0] += us_between(0, now) / double(calls);
    for (std::size_t i = 1; singly && i <= now; i++) times.push_back(us_between(i - 1, i));
    done += now;
  }
  return times;
}

std::function<void()> CudaGpu::capture(const std::function<void()>& body) {
  cudaGraph_t captured = nullptr;
  check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
        "beginning a graph");
  try {
    body();
  } catch (...) {
    // The body has failed; restore the stream.
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
  // Use as many device queues as possible: streams that share one wait for one another, and so
  // would ranks that are threads. CUDA reads this once, at its first use.
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
