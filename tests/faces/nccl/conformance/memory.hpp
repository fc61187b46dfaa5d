// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where the judged calls' buffers are, and how the program uses them. Nothing else in the program
/// depends on the kind of memory.

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

  /// Lets the calling thread act as the `local`-th rank of this process.
  virtual void use(int local) = 0;
  /// For ncclCommInitAll: the device of each rank, or NULL for the first ones.
  virtual const int* devices(int ranks) = 0;
  /// Memory of the current rank, aligned to at least 256 bytes.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data) = 0;
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, std::size_t bytes) = 0;
  /// A stream of that rank, and a wait for its work.
  virtual cudaStream_t stream(int local) = 0;
  virtual void wait(cudaStream_t stream) = 0;

  /// Whether it is device memory, whose streams can be captured.
  virtual bool is_of_devices() const { return false; }
  /// Captures what the calling thread puts into the stream from here on; launch() then runs the
  /// graph there.
  virtual void capture(cudaStream_t) {}
  virtual void launch(cudaStream_t) {}
};

/// Host memory, for CCOLL_NCCL_HOST=1.
std::unique_ptr<Memory> host_memory();
/// Device memory; a process's ranks take the devices in turn. NULL in a program built without CUDA.
std::unique_ptr<Memory> device_memory(int ranks);

}  // namespace conformance
