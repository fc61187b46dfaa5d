// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory that ranks of one host read where it lies.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

#include "ccoll/version.hpp"

namespace ccoll {

/// What kind of memory.
enum class Where : std::uint8_t {
  host,
  device,  ///< of an NVIDIA GPU
};

/// Registered memory: the processes of other ranks on this host map it when data in it are first
/// sent to them, and from then on may read them where they lie: pieces of 16 KiB and more, of
/// collectives and of messages above the eager limit. From ordinary memory they are copied first.
/// Any call takes such buffers, whole or in part, also where other ranks' are ordinary memory;
/// results are the same.
///
/// What is read where it lies has been read when the call returns, so a call that sends ordinary
/// memory may return earlier.
///
/// It needs no communicator, belongs to the process, and may be used with any number of
/// communicators, threads and calls, one after the other or (to send) at a time. Freeing, which
/// deregisters, waits for no peer; calls that use it must be over. Each takes one file descriptor,
/// and one mapping for each rank that it was sent to; all of them together one descriptor more at
/// either end of each such pair. It is meant for a few large buffers, not for thousands of small
/// ones. Not thread-safe by itself, as any value; a forked child has no part in it.
///
/// Nothing is left behind however a process ends: it is a memfd.
///
/// Memory of a GPU (Where::device) is a VMM allocation of CUDA's, which GPUs of this process that
/// reach its own may use, too. Any call takes it as it takes memory of cudaMalloc, in streams and
/// without. Collectives that devices make for several processes read what other ranks send of it
/// where it lies, whatever its size, once all ranks have mapped it; others copy it as any memory of
/// a GPU. A graph is captured with what is lent by then, after up to a second in which it may be
/// mapped, and its memory is kept as long as the graph may run. Freeing waits for no stream, as
/// cudaFree would: those that use it have passed. What was mapped of it goes when the other ranks
/// hear of that, or at the latest with their communicators.
///
/// Memory of a GPU that the user has of cudaMalloc is read so, too, once he has registered it. What
/// he has to do before he frees it stands at register_memory(data, bytes).
class CCOLL_API Memory {
 public:
  /// None.
  Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  /// Aligned to pages where allocate() made it. Null where there is none. Of a GPU's memory it is
  /// an address of CUDA's, which the host does not read or write.
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
  /// The same, and waits up to `limit` until no other rank has a GPU's memory open that was
  /// registered: whether the user may call cudaFree now. Where not, it is deregistered, and may be
  /// asked again. Of other memory it is true at once.
  bool reset_within(std::chrono::milliseconds limit) noexcept;

 private:
  struct State;
  explicit Memory(std::unique_ptr<State> state);
  friend Memory allocate(std::size_t bytes, Where where, std::optional<int> device);
  friend Memory register_memory(void* data, std::size_t bytes, int file, std::uint64_t file_offset);
  friend Memory register_memory(void* data, std::size_t bytes);

  std::unique_ptr<State> state_;
};

/// New memory of `bytes` (at least 1); the host's is all zero, what a GPU's holds is undefined.
/// `device`: whose memory, for Where::device alone, by CUDA's number in this process; none: the
/// calling thread's current one, which stays that unless it has used none yet. Whole pages are
/// taken of a GPU, which are 2 MiB on most. Throws Error: `invalid_argument`, `exhausted` where
/// there is no more memory or no more descriptors, `unsupported` where CUDA finds no GPU or none
/// that shares memory, in CUDA's words, or the build has no CUDA.
[[nodiscard]] CCOLL_API Memory allocate(std::size_t bytes, Where where = Where::host,
                                        std::optional<int> device = std::nullopt);

/// Registers memory that is shared already: `bytes` at `data`, a mapping with MAP_SHARED of what
/// lies at `file_offset` in `file` (a memfd, or a file of /dev/shm), which must not be made shorter
/// while any rank may read it: as long as it is registered, and where a call has failed until its
/// communicators are closed. The mapping stays the caller's and must last as long as what is
/// returned, whose end deregisters it; `file` is duplicated. Throws Error: `invalid_argument` where
/// some of it is registered already or the file has not so many bytes, `exhausted`.
[[nodiscard]] CCOLL_API Memory register_memory(void* data, std::size_t bytes, int file,
                                               std::uint64_t file_offset = 0);

/// Registers memory of a GPU that the user has of CUDA: `bytes` at `data`, somewhere in one
/// allocation, of which any number of parts may be registered that do not overlap. What is memory
/// of a GPU CUDA is asked, where it is in use in this process already. The memory stays the
/// caller's and must last as long as what is returned, whose end deregisters it.
///
/// Of cudaMalloc: ranks of other processes open its allocation by legacy CUDA IPC, once in a
/// process (of small allocations CUDA opens the whole pages of 2 MiB in which they lie, and so
/// their neighbours), and read it as they read memory of allocate(bytes, Where::device). The first
/// time they read a pattern in other memory of that process, within 5 s; where that is not right,
/// they read none of its memory where it lies. Memory that others cannot have (of pools, as
/// cudaMallocAsync gives it, managed or mapped, or of any kind where CUDA has no IPC, as between
/// some containers) is registered all the same and copied as if it were not: which is a warning,
/// once, with the reason.
///
/// **Before cudaFree.** CUDA leaves undefined what happens if memory is freed that another process
/// has open. Deregistering waits for nobody; the others then close it, which takes them a moment,
/// or longer where CUDA waits for their streams. So: memory.reset_within(limit), and cudaFree once
/// that has been true; where a call has failed it is so when all ranks have closed the communicator
/// and no graph is left that has captured calls of it. A process that ends, however it does, has
/// closed it, unless a child that it forked, without exec, is still there. CUDA does not say what
/// others read of such memory once its own process has been killed; memory of allocate() they keep.
///
/// Throws Error: `invalid_argument` where `data` is no address of a GPU's memory, its allocation,
/// if of cudaMalloc, has not so many bytes from there on, or some of it is registered already, as
/// memory of allocate() is; `exhausted`; `unsupported` where the build has no CUDA or the driver is
/// too old.
[[nodiscard]] CCOLL_API Memory register_memory(void* data, std::size_t bytes);

}  // namespace ccoll
