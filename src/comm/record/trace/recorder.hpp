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

#include "comm/record/trace/format.hpp"
#include "comm/record/trace/ticks.hpp"
#include "core/result.hpp"
#include "system/file_descriptor.hpp"

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

  /// Creates the file anew. `about` is the header's text. `counter`: ticks are the processor's.
  static Result<std::unique_ptr<Recorder>> create(const std::string& path, std::string_view about,
                                                  std::size_t buffer_bytes = kBufferBytes,
                                                  bool counter = has_good_counter());
  /// Writes the remaining entries.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Whether the processors' time-stamp counters are one clock, as the kernel has found.
  static bool has_good_counter();

  /// The time of all entries but messages: it costs less than half of now().
  std::uint64_t ticks() const {
#if defined(__x86_64__)
    if (counter_) [[likely]]
      return processor_ticks();
#endif
    return now();
  }

  template <typename Entry>
  void add(const Entry& entry) {
    static_assert(kIsEntry<Entry>);
    if (buffer_.size() - used_ < kEntryBytes) [[unlikely]]
      write();
    std::memcpy(buffer_.data() + used_, &entry, kEntryBytes);
    used_ += kEntryBytes;
  }
  void add_plan(PlanEntry entry, std::string_view text);

  /// Writes the entries if the last write came well before `ticks`.
  void write_at_times(std::uint64_t ticks) {
    if (ticks - written_at_ > kBetweenWrites) [[unlikely]]
      write();
  }
  void write();

 private:
  /// A second, or a fraction in processor ticks: a killed process loses only so much of its trace.
  static constexpr std::uint64_t kBetweenWrites = 1'000'000'000;

  Recorder(FileDescriptor file, std::string path, std::size_t buffer_bytes, bool counter);
  template <typename Entry>
  void add(const Entry& entry, std::string_view text);
  void write_buffer();
  /// Begins a piece with a place for the clocks, which are read when the piece is written.
  void begin_piece();
  void set_clock();

  FileDescriptor file_;  ///< closed once it cannot be written
  const std::string path_;
  const bool counter_;
  const int process_;  ///< a forked child has the same memory, but not the trace
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  std::size_t idle_ = 0;      ///< of that, bytes not worth writing
  std::size_t clock_at_ = 0;  ///< where in the buffer the clock entry stands
  std::uint64_t written_at_;  ///< in ticks
};

}  // namespace ccoll::trace
