// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All that device code needs of its machine: a thread's place in its block, the block's barrier,
/// and words that other blocks, processes and devices read and write. With it the same code is a
/// CUDA kernel and, without any CUDA header, a function that tests run on the host.
///
/// The rules that keep this correct, which a test of the compiled code checks:
/// - A flag has one writer. Data is published by the block's barrier, then one thread's
///   store_release; it is taken by one thread's load_acquire, then the barrier.
/// - Words that several write at once change by exchange_if, which takes, and add, which publishes.
/// - Memory that someone else writes while a kernel runs is never `const __restrict__` and never
///   read by __ldg: such reads become ld.global.nc, which no acquire orders.
/// - Every word here is accessed at system scope. Plain loads and stores are for data only.
/// - Nothing else orders memory: no fence, and no word that takes and publishes at once.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/host_device.hpp"

#ifndef __CUDA_ARCH__
#include <atomic>
#include <thread>
#endif

namespace ccoll::device {

/// A block as device code sees it: a template parameter, passed by const reference.
template <class B>
concept Block = requires(const B block) {
  static_cast<std::uint32_t>(block.thread());   // below threads()
  static_cast<std::uint32_t>(block.threads());  // the same for all threads of the block
  block.barrier();  // every thread arrives; what was written before is seen after
};

/// A block of one thread: any host function.
struct LoneThread {
  CCOLL_HOST_DEVICE constexpr std::uint32_t thread() const { return 0; }
  CCOLL_HOST_DEVICE constexpr std::uint32_t threads() const { return 1; }
  CCOLL_HOST_DEVICE constexpr void barrier() const {}
};

#ifdef __CUDACC__
/// The one-dimensional block that a kernel runs in. Host code may name it but not be it.
struct CudaBlock {
  CCOLL_HOST_DEVICE std::uint32_t thread() const {
#ifdef __CUDA_ARCH__
    return threadIdx.x;
#else
    return 0;
#endif
  }
  CCOLL_HOST_DEVICE std::uint32_t threads() const {
#ifdef __CUDA_ARCH__
    return blockDim.x;
#else
    return 1;
#endif
  }
  CCOLL_HOST_DEVICE void barrier() const {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }
};
#endif

// These are the PTX instructions themselves, because a test compares them with the compiled code.
// "memory" keeps the compiler from moving data accesses across.

CCOLL_HOST_DEVICE inline std::uint32_t load_acquire(const std::uint32_t* from) {
#ifdef __CUDA_ARCH__
  std::uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
#else
  return std::atomic_ref(*const_cast<std::uint32_t*>(from)).load(std::memory_order_acquire);
#endif
}

CCOLL_HOST_DEVICE inline std::uint64_t load_acquire(const std::uint64_t* from) {
#ifdef __CUDA_ARCH__
  std::uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
#else
  return std::atomic_ref(*const_cast<std::uint64_t*>(from)).load(std::memory_order_acquire);
#endif
}

CCOLL_HOST_DEVICE inline std::uint32_t load_relaxed(const std::uint32_t* from) {
#ifdef __CUDA_ARCH__
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
#else
  return std::atomic_ref(*const_cast<std::uint32_t*>(from)).load(std::memory_order_relaxed);
#endif
}

CCOLL_HOST_DEVICE inline std::uint64_t load_relaxed(const std::uint64_t* from) {
#ifdef __CUDA_ARCH__
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
#else
  return std::atomic_ref(*const_cast<std::uint64_t*>(from)).load(std::memory_order_relaxed);
#endif
}

CCOLL_HOST_DEVICE inline void store_release(std::uint32_t* to, std::uint32_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
#else
  std::atomic_ref(*to).store(value, std::memory_order_release);
#endif
}

CCOLL_HOST_DEVICE inline void store_release(std::uint64_t* to, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
#else
  std::atomic_ref(*to).store(value, std::memory_order_release);
#endif
}

CCOLL_HOST_DEVICE inline void store_relaxed(std::uint32_t* to, std::uint32_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.u32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
#else
  std::atomic_ref(*to).store(value, std::memory_order_relaxed);
#endif
}

CCOLL_HOST_DEVICE inline void store_relaxed(std::uint64_t* to, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
#else
  std::atomic_ref(*to).store(value, std::memory_order_relaxed);
#endif
}

/// Stores `value` if `expected` is there; returns whether it was. Acquires. A thread that acquires
/// the word afterwards still gets what was released to it before, as behind add.
CCOLL_HOST_DEVICE inline bool exchange_if(std::uint64_t* word, std::uint64_t expected,
                                          std::uint64_t value) {
#ifdef __CUDA_ARCH__
  std::uint64_t before;
  asm volatile("atom.acquire.sys.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(word), "l"(expected), "l"(value)
               : "memory");
  return before == expected;
#else
  return std::atomic_ref(*word).compare_exchange_strong(expected, value, std::memory_order_acquire);
#endif
}

/// Returns the sum. Releases.
CCOLL_HOST_DEVICE inline std::uint64_t add(std::uint64_t* word, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  std::uint64_t before;
  asm volatile("atom.release.sys.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(word), "l"(value)
               : "memory");
  return before + value;
#else
  return std::atomic_ref(*word).fetch_add(value, std::memory_order_release) + value;
#endif
}

/// 16 bytes of data. It is never a word that is written and read at once. PTX's memory model
/// relates accesses of up to 8 bytes; to it, a larger one is several, in no order.
struct alignas(16) Word16 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

/// The address is aligned; only barriers and flags order the access. It is never in memory that a
/// block shares. The compiler knows that, so the access need not find it out.
CCOLL_HOST_DEVICE inline Word16 load_data(const std::byte* from) {
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(from));
  return *reinterpret_cast<const Word16*>(from);
#else
  Word16 value;
  std::memcpy(&value, from, sizeof value);
  return value;
#endif
}

CCOLL_HOST_DEVICE inline void store_data(std::byte* to, Word16 value) {
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(to));
  *reinterpret_cast<Word16*>(to) = value;
#else
  std::memcpy(to, &value, sizeof value);
#endif
}

/// Called between two looks at a word that has not changed yet. A host thread lets others run:
/// blocks that wait for each other may outnumber the cores.
CCOLL_HOST_DEVICE inline void relax() {
#ifndef __CUDA_ARCH__
  std::this_thread::yield();
#endif
}

}  // namespace ccoll::device
