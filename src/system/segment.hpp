// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory that several processes map: a memfd, which has no name and vanishes with its last holder,
/// however that ends.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll {

class Segment {
 public:
  /// New memory of `bytes`, all zero; /proc/PID/maps shows `name`. It can neither grow nor shrink,
  /// so every process that maps it may touch all of it. Fails with `exhausted` if memory may be
  /// free later, with `unsupported` if this process can have none.
  static Result<std::shared_ptr<Segment>> make(const char* name, std::size_t bytes);
  /// The same, but others can map it read-only (if the kernel can guarantee that: 5.1).
  static Result<std::shared_ptr<Segment>> make_lendable(const char* name, std::size_t bytes);
  /// The same for this process alone, for systems without memfd_create: it has no file().
  static Result<std::shared_ptr<Segment>> make_private(std::size_t bytes);
  /// Maps another process's memory if it has at least `bytes` and its size is sealed. If this
  /// process has mapped it already, returns that mapping: ranks that are threads share one.
  static Result<std::shared_ptr<Segment>> map(const FileDescriptor& file, std::size_t bytes);
  /// Bytes [offset, offset + bytes) of any file that can be mapped, read-only.
  static Result<std::shared_ptr<Segment>> view(const FileDescriptor& file, std::uint64_t offset,
                                               std::size_t bytes);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// The file to pass to a peer; memory that was made here has it until close_file().
  const FileDescriptor& file() const { return file_; }
  /// Whether this process made or mapped it, and not the process that this one was forked from: the
  /// parent still runs its protocols.
  bool is_mine() const { return process_ == getpid(); }
  /// No other process is to get it; the memory stays. Called by the thread that passes it on.
  void close_file() { file_.close(); }
  /// Gives whole pages of it back to the system; they are zero at the next touch.
  void give_back(std::byte* data, std::size_t bytes) const;
  /// Has the system make its pages now, which takes as long as at their first touch. If it cannot,
  /// they are made then.
  void make_pages(std::byte* data, std::size_t bytes) const;
  /// As close_file(), but the caller keeps the file.
  FileDescriptor take_file() { return std::move(file_); }

 private:
  static Result<std::shared_ptr<Segment>> make_sealed(const char* name, std::size_t bytes,
                                                      int seals);
  explicit Segment(FileDescriptor file) : file_(std::move(file)) {}
  Status map(int number, int protection, int flags, std::uint64_t offset, std::size_t bytes);
  static Result<std::shared_ptr<Segment>> mapped(FileDescriptor file, int number,
                                                 std::size_t bytes);

  FileDescriptor file_;
  const pid_t process_ = getpid();
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t before_ = 0;  ///< mapped bytes before data_: files are mapped by whole pages
};

}  // namespace ccoll
