// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of a GPU that other processes of the host map, too: by a file descriptor, which travels
/// over a Unix socket. A mapping keeps the memory, even when the process that made it has ended.
/// Also host memory that GPUs of several processes map. Only in builds with CUDA; knows no CUDA
/// itself.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/bytes.hpp"
#include "core/result.hpp"
#include "gpu/memory/lendable.hpp"
#include "system/file_descriptor.hpp"
#include "system/segment.hpp"

namespace ccoll::device {

class SharedMemory final : public Lendable {
 public:
  /// Makes at least `bytes`, on GPU `device`.
  static Result<std::shared_ptr<SharedMemory>> make(int device, std::uint64_t bytes);
  /// The memory with number `id` that this process has made for GPU `device`, if it is still there;
  /// null: none.
  static std::shared_ptr<SharedMemory> find(std::uint64_t id, int device);
  /// Maps memory that another process has made, all `bytes` of it; for GPU `device`.
  static Result<std::shared_ptr<SharedMemory>> import(int device, const FileDescriptor& file,
                                                      std::uint64_t bytes);
  /// Maps the memory that directions() describe, behind their first byte.
  static Result<Borrowed> borrow(int device, net::Reader& directions, const FileDescriptor& file);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  /// Unmaps it. Nothing may use it any more.
  ~SharedMemory() override;

  /// Lets the GPUs of this process that reach its own use it, too.
  Status open_to_peers() const;
  /// Where GPU `device` sees it.
  std::byte* data() const override { return data_; }
  std::uint64_t size() const override { return size_; }
  int device() const override { return device_; }
  /// To hand to a peer; only for memory that was made here.
  const FileDescriptor& file() const { return file_; }
  std::uint64_t id() const override { return id_; }
  const std::string& directions() const override { return directions_; }
  Result<FileDescriptor> file_to_give() override;

 private:
  explicit SharedMemory(int device) : device_(device) {}
  Status map(unsigned long long handle, std::uint64_t bytes);
  Status let_use(int device) const;

  const int device_;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;  ///< 0: nothing is mapped
  FileDescriptor file_;
  std::uint64_t id_ = 0;
  std::string directions_;
};

/// A segment that the GPUs of this process map. Ranks of one process share the mapping.
class MappedSegment {
 public:
  static Result<std::shared_ptr<MappedSegment>> map(std::shared_ptr<Segment> segment);
  MappedSegment(const MappedSegment&) = delete;
  MappedSegment& operator=(const MappedSegment&) = delete;
  ~MappedSegment();

  const Segment& segment() const { return *segment_; }
  /// Where this process's GPUs see it.
  std::byte* on_device() const { return on_device_; }

 private:
  explicit MappedSegment(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {}

  const std::shared_ptr<Segment> segment_;
  std::byte* on_device_ = nullptr;  ///< null: not registered
};

}  // namespace ccoll::device
