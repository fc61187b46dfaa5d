// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory that users have of cudaMalloc: other processes open its allocation by a handle of CUDA's
/// ("legacy CUDA IPC"). Whoever has opened it does not keep it: CUDA leaves undefined what happens
/// where it is freed before all have closed it. So each reader holds a socket, by whose end the
/// owner hears that it has closed the memory, or is gone. Only in builds with CUDA, of which it
/// knows nothing here.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/bytes.hpp"
#include "gpu/memory/lendable.hpp"

namespace ccoll::device {

class IpcMemory final : public Lendable {
 public:
  /// [data, data + bytes) of GPU `device`, which have to be of one allocation. The first of a
  /// process and GPU takes a little of its memory, for others to try out whether they read what is
  /// there.
  static Result<std::shared_ptr<IpcMemory>> make(int device, std::byte* data, std::uint64_t bytes);
  /// What IpcMemory has told of. The first time of an owner this reads a pattern of his, within
  /// 5 s; nothing is borrowed of one for whom that has failed.
  static Result<Borrowed> borrow(int device, net::Reader& directions, FileDescriptor held);

  std::byte* data() const override { return data_; }
  std::uint64_t size() const override { return size_; }
  int device() const override { return device_; }
  std::uint64_t id() const override { return id_; }
  const std::string& directions() const override { return directions_; }
  Result<FileDescriptor> file_to_give() override;

  /// Why others cannot have it; empty: they can.
  const std::string& why_not() const { return why_not_; }
  /// Whether by then none has it any more; nobody may be given any more.
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
  std::mutex mu_;
  std::vector<FileDescriptor> readers_;  // guarded by mu_; a socket's end for each
};

}  // namespace ccoll::device
