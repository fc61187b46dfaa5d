// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory of cudaMalloc on the GPU that cuda_on_host plays: other processes open it by
/// handle ("legacy CUDA IPC").

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "system/file_descriptor.hpp"

namespace ccoll::testing {

/// An allocation of this process, or one of another process that this one has opened. It is a
/// memfd, begins within a page as small CUDA allocations may, and is followed by a guard page.
class AllocationOnHost {
 public:
  /// `is_hidden`: no CPU can touch it at the device's address. Null if memory is short.
  static std::unique_ptr<AllocationOnHost> make(std::size_t bytes, int device, bool is_hidden);
  /// Opens another process's allocation by its handle; null if the handle is invalid or the memory
  /// is gone. `is_other` opens other memory of the same size.
  static std::unique_ptr<AllocationOnHost> open(const cudaIpcMemHandle_t& handle, bool is_other);
  AllocationOnHost(const AllocationOnHost&) = delete;
  AllocationOnHost& operator=(const AllocationOnHost&) = delete;
  ~AllocationOnHost();

  cudaIpcMemHandle_t handle() const;
  /// Whether another process has it open; if not, nobody can open it any more.
  bool is_open_elsewhere() const;
  static bool is_of_this_process(const cudaIpcMemHandle_t& handle);

  std::byte* begin() const { return pages_ + offset_; }
  std::size_t bytes() const { return bytes_; }
  int device() const { return device_; }
  bool is_hidden() const { return view_ != pages_; }
  std::byte* pages() const { return pages_; }
  std::size_t bytes_of_pages() const { return whole_; }
  int file() const { return file_.number(); }
  /// The address at which this process can access the device's memory at `at`, within its pages.
  std::byte* seen(const std::byte* at) const { return view_ + (at - pages_); }

 private:
  AllocationOnHost() = default;
  bool map(int access);

  FileDescriptor file_;
  std::byte* pages_ = nullptr;
  std::byte* view_ = nullptr;
  std::size_t whole_ = 0;
  std::size_t offset_ = 0;
  std::size_t bytes_ = 0;
  int device_ = 0;
  pid_t owner_ = 0;
};

}  // namespace ccoll::testing
