// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory that ranks of one host read where it lies.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "ccoll/version.hpp"

namespace ccoll {

/// What kind of memory.
enum class Where : std::uint8_t {
  host,
};

/// Registered memory: the processes of other ranks on this host map it when data in it are first
/// sent to them, and from then on read what is sent to them, 8 KiB or more at a time, where it
/// lies; from ordinary memory it is copied for them first. Any call takes such buffers, whole or in
/// part, also where other ranks' are ordinary memory; results are the same.
///
/// What a call sends from registered memory has been read when it returns, so a call that sends
/// ordinary memory may return earlier.
///
/// It needs no communicator, belongs to the process, and may be used with any number of
/// communicators, threads and calls, one after the other or (to send) at a time. Freeing, which
/// deregisters, waits for no peer; calls that use it must be over. Each takes one file descriptor,
/// and one mapping in every process that it was sent to: it is meant for a few large buffers, not
/// for thousands of small ones. Not thread-safe by itself, as any value.
///
/// Nothing is left behind however a process ends: it is a memfd.
class CCOLL_API Memory {
 public:
  /// None.
  Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  /// Aligned to pages where allocate() made it. Null where there is none.
  std::byte* data() const noexcept;
  std::size_t size_bytes() const noexcept;
  /// As many whole elements as fit.
  template <typename T>
  std::span<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(data()), size_bytes() / sizeof(T)};
  }
  /// Frees or deregisters it now.
  void reset() noexcept;

 private:
  struct State;
  explicit Memory(std::unique_ptr<State> state);
  friend Memory allocate(std::size_t bytes, Where where);
  friend Memory register_memory(void* data, std::size_t bytes, int file, std::uint64_t file_offset);

  std::unique_ptr<State> state_;
};

/// New memory of `bytes` (at least 1), all zero. Throws Error: `invalid_argument`, or `exhausted`
/// where the system has no more memory or descriptors.
[[nodiscard]] CCOLL_API Memory allocate(std::size_t bytes, Where where = Where::host);

/// Registers memory that is shared already: `bytes` at `data`, a mapping with MAP_SHARED of what
/// lies at `file_offset` in `file` (a memfd, or a file of /dev/shm), which must not be made shorter
/// while it is registered. The mapping stays the caller's and must last as long as what is
/// returned, whose end deregisters it; `file` is duplicated. Throws Error: `invalid_argument` where
/// some of it is registered already or the file has not so many bytes, `exhausted`.
[[nodiscard]] CCOLL_API Memory register_memory(void* data, std::size_t bytes, int file,
                                               std::uint64_t file_offset = 0);

}  // namespace ccoll
