// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where the buffers of the judged calls are, and what the program does with them. The rest of the
/// program knows no other memory, so that a kind for devices is one more class here.

#include <cstddef>
#include <memory>
#include <vector>

#include "nccl.h"

namespace conformance {

class Memory {
 public:
  Memory() = default;
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Makes the calling thread's calls those of the `local`-th rank of this process.
  virtual void use(int local) = 0;
  /// For ncclCommInitAll: the device of each rank, or NULL for the first ones.
  virtual const int* devices(int ranks) = 0;
  /// Memory of the rank that is used, aligned to 256 bytes at least.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data) = 0;
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, std::size_t bytes) = 0;
  /// A stream of the rank that is used, and the end of what is in it.
  virtual cudaStream_t stream(int local) = 0;
  virtual void wait(cudaStream_t stream) = 0;

  /// Whether it is of devices, whose streams' work can be captured.
  virtual bool is_of_devices() const { return false; }
  /// From here on, what the calling thread puts into the stream goes into a graph; then that graph
  /// is launched there.
  virtual void capture(cudaStream_t) {}
  virtual void launch(cudaStream_t) {}
};

/// Memory of the host, for CCOLL_NCCL_HOST=1.
std::unique_ptr<Memory> host_memory();
/// Memory of devices, of which a process's ranks use one after another. NULL in a program that was
/// built without them.
std::unique_ptr<Memory> device_memory(int ranks);

}  // namespace conformance
