// SPDX-License-Identifier: Apache-2.0
#pragma once

/// cc-bench's interface to CUDA for a rank with buffers in GPU memory: allocation, patterns and
/// checks on the GPU, and timing of its stream. It uses none of CUDA's headers; a build without
/// CUDA has no such rank. Does not depend on communicators.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ccoll/device.hpp"
#include "core/result.hpp"

namespace ccoll::bench {

/// When a GPU's time is measured, this many calls are put into the stream before a wait for it:
/// nccl-tests' iterations, unless overridden. (Each may use staging memory on the host.)
inline constexpr std::uint64_t kCallsInStream = 20;

/// One rank's stream and GPU memory. Only the thread that made it may use it, and its GPU is
/// current there. Failures throw Error with CUDA's text.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual int number() const = 0;  ///< CUDA's number for it in this process
  virtual cudaStream_t stream() const = 0;
  /// Waits for all work in the stream.
  virtual void wait() = 0;

  struct GiveBack {
    void operator()(std::byte* memory) const noexcept { gpu->give_back(memory); }
    Gpu* gpu = nullptr;
  };
  /// Returned memory is kept until free_unused(): freeing waits for all streams of the process,
  /// even those in which other ranks wait for this one. The Gpu must outlive it.
  using Memory = std::unique_ptr<std::byte, GiveBack>;
  virtual Memory allocate(std::uint64_t bytes) = 0;
  /// May be called only when no rank of the process has anything in its stream.
  virtual void free_unused() noexcept = 0;

  // Same as the functions in data.hpp, on GPU memory and by the GPU, in stream order. They return
  // when done.
  virtual void fill(std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
                    std::span<const std::byte> period, std::uint64_t first) = 0;
  virtual std::uint64_t count_wrong(std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
                                    std::span<const std::byte> period, std::uint64_t first) = 0;

  /// A BatchTimer (measure.hpp) for calls that `put` adds to the stream: the time between two
  /// events in it, by the GPU's clock.
  virtual std::vector<double> time(std::uint64_t calls, bool singly,
                                   const std::function<void()>& put) = 0;

  /// Captures the work of `body` as a graph; each call of the result launches it.
  virtual std::function<void()> capture(const std::function<void()>& body) = 0;

 protected:
  virtual void give_back(std::byte* memory) noexcept = 0;
};

/// How many GPUs this process can use. `unsupported`, with CUDA's text, if there is none.
Result<int> count_gpus();

/// For the `local_rank`-th rank of this host: ranks take the GPUs in turn and may share one. Throws
/// Error.
std::unique_ptr<Gpu> open_gpu(int local_rank);

}  // namespace ccoll::bench
