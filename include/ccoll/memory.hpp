// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory that ranks of one host read directly.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

#include "ccoll/version.hpp"

namespace ccoll {

/// Kinds of memory.
enum class Where : std::uint8_t {
  host,
  device,  ///< of an NVIDIA GPU
};

/// Registered memory. Processes of other ranks on this host map it when data in it are first sent
/// to them. From then on they may read the data directly: pieces of 16 KiB and more, of collectives
/// and of messages above the eager limit. Data in ordinary memory are copied first. Any call takes
/// such buffers, whole or in part, even if other ranks' are ordinary memory; results are the same.
///
/// Data that are read directly have been read when the call returns, so a call that sends ordinary
/// memory may return earlier.
///
/// It needs no communicator and belongs to the process. Any number of communicators, threads and
/// calls may use it, one after the other or (to send) at a time. Freeing, which deregisters, waits
/// for no peer; calls that use it must be over. Each takes one file descriptor, and one mapping for
/// each rank that it was sent to. All of them together take one more descriptor at either end of
/// each such pair. It is meant for a few large buffers, not for thousands of small ones. Like any
/// value it is not thread-safe by itself; a forked child has no part in it.
///
/// Nothing is left behind however a process ends: it is a memfd.
///
/// GPU memory (Where::device) is a VMM allocation of CUDA's, which GPUs of this process that reach
/// its own may use, too. Any call takes it like memory of cudaMalloc, in streams and without.
/// Collectives that devices make for several processes read other ranks' data in it directly,
/// whatever the size, once all ranks have mapped it; others copy it like any GPU memory. A graph is
/// captured with the memory that is lent by then, after up to a second in which it may be mapped;
/// that memory is kept as long as the graph may run. Freeing does not wait for streams, as cudaFree
/// would: those that use it must have passed. Its mappings go when the other ranks hear of that, or
/// at the latest with their communicators.
///
/// GPU memory that the user has from cudaMalloc is read directly, too, once it is registered.
/// register_memory(data, bytes) says what must be done before it is freed.
class CCOLL_API Memory {
 public:
  /// No memory.
  Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  /// Aligned to pages if allocate() made it; null if there is none. For GPU memory it is an address
  /// of CUDA's, which the host does not read or write.
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
  /// The same, but waits up to `limit` until no other rank has registered GPU memory open: if true,
  /// the user may call cudaFree. If false, it is deregistered, and this may be asked again. For
  /// other memory it is true at once.
  bool reset_within(std::chrono::milliseconds limit) noexcept;

 private:
  struct State;
  explicit Memory(std::unique_ptr<State> state);
  friend Memory allocate(std::size_t bytes, Where where, std::optional<int> device);
  friend Memory register_memory(void* data, std::size_t bytes, int file, std::uint64_t file_offset);
  friend Memory register_memory(void* data, std::size_t bytes);

  std::unique_ptr<State> state_;
};

/// New memory of `bytes` (at least 1); host memory is all zero, the contents of GPU memory are
/// undefined. `device`, for Where::device alone: the GPU, by CUDA's number in this process; none:
/// the calling thread's current one, which stays that unless it has used none yet. GPU memory is
/// taken in whole pages, which are 2 MiB on most. Throws Error: `invalid_argument`; `exhausted` if
/// memory or descriptors run out; `unsupported` if CUDA finds no GPU, or none that shares memory,
/// in CUDA's words, or if the build has no CUDA.
[[nodiscard]] CCOLL_API Memory allocate(std::size_t bytes, Where where = Where::host,
                                        std::optional<int> device = std::nullopt);

/// Registers memory that is shared already: `bytes` at `data`, a MAP_SHARED mapping of `file` (a
/// memfd, or a file of /dev/shm) from `file_offset` on. The file must not be made shorter while any
/// rank may read it: as long as it is registered, and after a failed call until its communicators
/// are closed. The mapping stays the caller's and must last as long as the result, whose end
/// deregisters it; `file` is duplicated. Throws Error: `invalid_argument` if some of it is
/// registered already or the file has fewer bytes; `exhausted`.
[[nodiscard]] CCOLL_API Memory register_memory(void* data, std::size_t bytes, int file,
                                               std::uint64_t file_offset = 0);

/// Registers GPU memory that the user has from CUDA: `bytes` at `data`, somewhere in one
/// allocation. Any number of its parts may be registered that do not overlap. CUDA is asked whether
/// it is GPU memory, if CUDA is in use in this process already. The memory stays the caller's and
/// must last as long as the result, whose end deregisters it.
///
/// Memory of cudaMalloc: ranks of other processes open its allocation by legacy CUDA IPC, once in a
/// process, and read it like memory of allocate(bytes, Where::device). (For small allocations CUDA
/// opens the whole pages of 2 MiB in which they lie, and so their neighbours.) The first time, they
/// read a pattern in other memory of that process, within 5 s; if that is wrong, they read none of
/// its memory directly. Memory that others cannot have is registered all the same, copied as if it
/// were not, and reported once by a warning with the reason. That is memory of pools (as
/// cudaMallocAsync gives it), managed or mapped memory, and any if CUDA has no IPC, as between some
/// containers.
///
/// **Before cudaFree.** CUDA leaves undefined what happens if memory is freed that another process
/// has open. Deregistering waits for nobody; the others then close it, which takes a moment, or
/// longer if CUDA waits for their streams. So call memory.reset_within(limit), and cudaFree once
/// that has been true. After a failed call it is true when all ranks have closed the communicator
/// and no graph is left that has captured its calls. A process that ends, however it does, has
/// closed it, unless a child that it forked, without exec, is still there. CUDA does not say what
/// others read of such memory once its own process has been killed; memory of allocate() they keep.
///
/// Throws Error: `invalid_argument` if `data` is no address in GPU memory, if its allocation by
/// cudaMalloc has fewer bytes from there on, or if some of it is registered already, as memory of
/// allocate() is; `exhausted`; `unsupported` if the build has no CUDA or the driver is too old.
[[nodiscard]] CCOLL_API Memory register_memory(void* data, std::size_t bytes);

}  // namespace ccoll
