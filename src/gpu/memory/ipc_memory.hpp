// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory that users have from cudaMalloc: other processes open its allocation by a handle of
/// CUDA's ("legacy CUDA IPC"). Opening does not keep it: CUDA leaves undefined what happens if it
/// is freed before all have closed it. So each reader holds a socket, whose end shows the owner
/// that the reader has closed the memory, or is gone. Only in builds with CUDA; knows no CUDA
/// itself.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.hpp"
#include "gpu/memory/lendable.hpp"
#include "system/locks.hpp"

namespace ccoll::device {

class IpcMemory final : public Lendable {
 public:
  /// [data, data + bytes) of GPU `device`, which must be of one allocation. The first of a process
  /// and GPU takes a little of its memory, for others to try out whether they can read it.
  static Result<std::shared_ptr<IpcMemory>> make(int device, std::byte* data, std::uint64_t bytes);
  /// Opens the memory of an IpcMemory by its directions(). For a new owner this first reads a
  /// pattern of that owner's, within 5 s. If that has failed, nothing is borrowed from the owner.
  static Result<Borrowed> borrow(int device, net::Reader& directions, FileDescriptor held);

  std::byte* data() const override { return data_; }
  std::uint64_t size() const override { return size_; }
  int device() const override { return device_; }
  std::uint64_t id() const override { return id_; }
  const std::string& directions() const override { return directions_; }
  Result<FileDescriptor> file_to_give() override;

  /// Why others cannot have it; empty if they can.
  const std::string& why_not() const { return why_not_; }
  /// Whether by `limit` no reader has it any more. It must not be given to anybody from then on.
  bool is_closed_by(std::chrono::steady_clock::time_point limit);

 private:
  IpcMemory(int device, std::byte* data, std::uint64_t bytes)
      : device_(device), data_(data), size_(bytes) {}
  Status find_directions();

  const int device_;
  std::byte* const data_;
  const std::uint64_t size_;
  std::uint64_t id_ = 0;      // immutable after make(), as are these
  std::uint64_t offset_ = 0;  ///< in its allocation
  std::string directions_, why_not_;
  Guarded<std::vector<FileDescriptor>> readers_;  ///< a socket's end for each
};

}  // namespace ccoll::device
