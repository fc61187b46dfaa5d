// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The file of a file store: an append-only log of requests, each with a checksum, that all
/// processes read into a State of their own. Whoever holds the file's lock may append.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::rendezvous {

/// Not thread-safe. The lock (`flock`) belongs to this object and is given back by the kernel when
/// the process dies, wherever it was.
class FileLog {
 public:
  explicit FileLog(std::string path) : path_(std::move(path)) {}

  /// Opens the file, creating it when absent.
  Status open();
  /// Takes the lock if it is free; false if somebody else has it.
  Result<bool> try_lock();
  void unlock();
  /// Whether there may be records beyond `seen`, an earlier offset(). Needs no lock. Fails when
  /// the file was removed: nobody else will ever write to it.
  Result<bool> changed(std::uint64_t seen) const;
  /// Where the record is that is being applied or will be appended next.
  std::uint64_t offset() const { return offset_; }

  /// Gives every record that was not read yet to `apply`. With the lock. A record that its writer
  /// did not finish, because it died, is cut off.
  Status read(const std::function<Status(std::string_view)>& apply);
  /// Adds a record, which is then read. With the lock, and nothing unread. Nothing is added when
  /// it fails.
  Status append(std::string_view record);
  /// The next read() begins at the first record.
  void rewind() { offset_ = 0; }

 private:
  tl::unexpected<Failure> failed(const char* doing) const;
  Status read_new_bytes(std::string& bytes);
  Status write_all(std::string_view bytes);

  const std::string path_;
  FileDescriptor file_;
  std::uint64_t offset_ = 0;  ///< up to here it was read
};

}  // namespace ccoll::rendezvous
