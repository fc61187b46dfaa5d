// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What cc-bench needs of CUDA for a rank whose buffers are memory of a GPU: that memory, what is
/// written there and looked at by the GPU, and times of what its stream does. Without CUDA's
/// headers; in a build without CUDA there is no such rank. Knows nothing of communicators.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ccoll/device.hpp"
#include "core/result.hpp"

namespace ccoll::bench {

/// Calls whose time a GPU takes are put into the stream one behind another, so many before the
/// stream is waited for: nccl-tests' iterations, unless told otherwise. (Each may have memory of
/// the host that it goes through.)
inline constexpr std::uint64_t kCallsInStream = 20;

/// One rank's stream, and memory of its GPU; of the thread that made it, and the current one there.
/// Whatever fails throws Error with CUDA's words.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual int number() const = 0;  ///< as CUDA counts them in this process
  virtual cudaStream_t stream() const = 0;
  /// Until all that is in the stream is done.
  virtual void wait() = 0;

  struct GiveBack {
    void operator()(std::byte* memory) const noexcept { gpu->give_back(memory); }
    Gpu* gpu = nullptr;
  };
  /// What is given back is kept until free_unused(): to free waits for all streams of the process,
  /// also for those in which other ranks wait for this one. The Gpu outlives it.
  using Memory = std::unique_ptr<std::byte, GiveBack>;
  virtual Memory allocate(std::uint64_t bytes) = 0;
  /// When no rank of the process has anything in its stream.
  virtual void free_unused() noexcept = 0;

  // What functions of the same names (data.hpp) do, of memory of the GPU and by it, in the order
  // of the stream. Over when they return.
  virtual void fill(std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
                    std::span<const std::byte> period, std::uint64_t first) = 0;
  virtual std::uint64_t count_wrong(std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
                                    std::span<const std::byte> period, std::uint64_t first) = 0;

  /// A BatchTimer (measure.hpp) of calls that `put` puts into the stream: from one event in the
  /// stream to another, by the clock of the GPU.
  virtual std::vector<double> time(std::uint64_t calls, bool singly,
                                   const std::function<void()>& put) = 0;

  /// What `body` puts into the stream, as a graph: each call of the result puts all of it there.
  virtual std::function<void()> capture(const std::function<void()>& body) = 0;

 protected:
  virtual void give_back(std::byte* memory) noexcept = 0;
};

/// How many this process can use. `unsupported`, in CUDA's words, where there is none.
Result<int> count_gpus();

/// For the `local_rank`-th rank of this host: ranks take the GPUs in turn, and several may have
/// one. Throws Error.
std::unique_ptr<Gpu> open_gpu(int local_rank);

}  // namespace ccoll::bench
