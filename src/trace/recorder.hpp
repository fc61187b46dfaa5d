// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Writes one rank's trace of one communicator: entries go to memory that is ready for them, and
/// from there to the file in large pieces. Not thread-safe.

#include <time.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/file_descriptor.hpp"
#include "core/result.hpp"
#include "trace/format.hpp"

namespace ccoll::trace {

/// CLOCK_MONOTONIC, which all processes of a host share and which the kernel lets programs read
/// without a system call. Nanoseconds.
inline std::uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

class Recorder {
 public:
  static constexpr std::size_t kBufferBytes = 1 << 20;

  /// Creates the file anew. `about` is the header's text.
  static Result<std::unique_ptr<Recorder>> create(const std::string& path, std::string_view about,
                                                  std::size_t buffer_bytes = kBufferBytes);
  /// Writes what there is.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  template <typename Entry>
  void add(const Entry& entry) {
    static_assert(kIsEntry<Entry>);
    if (buffer_.size() - used_ < kEntryBytes) [[unlikely]]
      write();
    std::memcpy(buffer_.data() + used_, &entry, kEntryBytes);
    used_ += kEntryBytes;
  }
  void add_plan(PlanEntry entry, std::string_view text);

  /// Writes what there is if that was last done a while before `now`.
  void write_at_times(std::uint64_t now) {
    if (now - written_at_ > kBetweenWrites) [[unlikely]]
      write();
  }
  void write();

 private:
  /// So that a process that is killed leaves most of what it did.
  static constexpr std::uint64_t kBetweenWrites = 1'000'000'000;

  Recorder(FileDescriptor file, std::string path, std::size_t buffer_bytes);
  template <typename Entry>
  void add(const Entry& entry, std::string_view text);
  bool write_buffer();

  FileDescriptor file_;  ///< closed once it cannot be written
  const std::string path_;
  const int process_;  ///< a forked child has the same memory, but not the trace
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  std::uint64_t written_at_;
};

}  // namespace ccoll::trace
