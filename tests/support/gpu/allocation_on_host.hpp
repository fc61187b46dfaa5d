// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What cudaMalloc gives of the GPU that cuda_on_host.cpp plays: memory that other processes open
/// by a handle ("legacy CUDA IPC").

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "system/file_descriptor.hpp"

namespace ccoll::testing {

/// An allocation, or one of another process that this one has opened. It is a memfd, begins within
/// a page as small ones of CUDA's may, and has a page behind it that nobody can touch.
class AllocationOnHost {
 public:
  /// `is_hidden`: no CPU can touch it where the device has it. Null: there is none.
  static std::unique_ptr<AllocationOnHost> make(std::size_t bytes, int device, bool is_hidden);
  /// What another process has told of by its handle; null where that is none, or of memory that is
  /// gone. `is_other`: other memory of the same size.
  static std::unique_ptr<AllocationOnHost> open(const cudaIpcMemHandle_t& handle, bool is_other);
  AllocationOnHost(const AllocationOnHost&) = delete;
  AllocationOnHost& operator=(const AllocationOnHost&) = delete;
  ~AllocationOnHost();

  cudaIpcMemHandle_t handle() const;
  /// Whether another process has it open; then none can open it any more either way.
  bool is_open_elsewhere() const;
  static bool is_of_this_process(const cudaIpcMemHandle_t& handle);

  std::byte* begin() const { return pages_ + offset_; }
  std::size_t bytes() const { return bytes_; }
  int device() const { return device_; }
  bool is_hidden() const { return view_ != pages_; }
  std::byte* pages() const { return pages_; }
  std::size_t bytes_of_pages() const { return whole_; }
  int file() const { return file_.number(); }
  /// Where this process can use what the device has at an address in its pages.
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
