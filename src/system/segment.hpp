// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory that several processes map: a memfd, which has no name anywhere and is gone with the last
/// who has it, however they end.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll {

class Segment {
 public:
  /// New memory of `bytes`, all zero; `name` is what /proc/PID/maps shows. It can be neither grown
  /// nor shrunk: whoever maps it may touch all of it. `exhausted` where there may be some later,
  /// `unsupported` where this process can have none.
  static Result<std::shared_ptr<Segment>> make(const char* name, std::size_t bytes);
  /// The same, which others can map to be read only (where the kernel can promise that: 5.1).
  static Result<std::shared_ptr<Segment>> make_lendable(const char* name, std::size_t bytes);
  /// The same for this process alone, where there is no memfd_create: it has no file().
  static Result<std::shared_ptr<Segment>> make_private(std::size_t bytes);
  /// What another process made, if it has at least `bytes` and its size is sealed. Where this
  /// process has mapped it already, that same mapping: ranks that are threads share one.
  static Result<std::shared_ptr<Segment>> map(const FileDescriptor& file, std::size_t bytes);
  /// Bytes [offset, offset + bytes) of any file that can be mapped, to be read only.
  static Result<std::shared_ptr<Segment>> view(const FileDescriptor& file, std::uint64_t offset,
                                               std::size_t bytes);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// To hand to a peer; of memory that was made here, until close_file().
  const FileDescriptor& file() const { return file_; }
  /// Whether it is of this process, not of the one that this was forked from: its protocols are the
  /// parent's affair, which shares it.
  bool is_mine() const { return process_ == getpid(); }
  /// Nobody else is to have it: the memory stays. By the thread that hands it over.
  void close_file() { file_.close(); }
  /// Whole pages of it, which the system may use for others; they are zero when next touched.
  void give_back(std::byte* data, std::size_t bytes) const;
  /// As close_file(), but the file goes on with the caller.
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
