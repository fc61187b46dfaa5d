// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The file of a file store: an append-only log of requests, each with a checksum, that all
/// processes read into a State of their own. The holder of the file's lock may append.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::rendezvous {

/// Not thread-safe. The lock (`flock`) belongs to this object. If the process dies, the kernel
/// releases it.
class FileLog {
 public:
  explicit FileLog(std::string path) : path_(std::move(path)) {}

  /// Opens the file, or creates it.
  Status open();
  /// Takes the lock if it is free; false if another process has it.
  Result<bool> try_lock();
  void unlock();
  /// Whether there may be records beyond `seen`, an earlier offset(). Needs no lock. Fails if the
  /// file was removed: no other process will ever write to it.
  Result<bool> changed(std::uint64_t seen) const;
  /// Offset of the record that is being applied or will be appended next.
  std::uint64_t offset() const { return offset_; }

  /// Gives every record that was not read yet to `apply`. Needs the lock. It cuts off a record that
  /// its writer left unfinished because it died.
  Status read(const std::function<Status(std::string_view)>& apply);
  /// Adds a record, which then counts as read. Needs the lock, and all records read. If it fails,
  /// nothing is added.
  Status append(std::string_view record);
  /// Makes the next read() begin at the first record.
  void rewind() { offset_ = 0; }

 private:
  tl::unexpected<Failure> failed(const char* doing) const;
  Status read_new_bytes(std::string& bytes);
  Status write_all(std::string_view bytes);

  const std::string path_;
  FileDescriptor file_;
  std::uint64_t offset_ = 0;  ///< up to here the file was read
};

}  // namespace ccoll::rendezvous
