// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What cc-bench needs of CUDA for a rank whose buffers are memory of a GPU. Without CUDA's
/// headers; in a build without CUDA there is no such rank. Knows nothing of communicators.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "ccoll/stream.hpp"
#include "core/result.hpp"

namespace ccoll::bench {

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

  /// In the order of the stream; over when they return.
  virtual void copy_there(std::byte* there, const std::byte* here, std::uint64_t bytes) = 0;
  virtual void copy_here(std::byte* here, const std::byte* there, std::uint64_t bytes) = 0;

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
