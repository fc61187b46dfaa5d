// SPDX-License-Identifier: Apache-2.0
// Two processes in step: their shared memory, where they meet, and the time of what both do at
// once.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "exchanges.hpp"

namespace limits {

using Clock = std::chrono::steady_clock;
constexpr int kBatches = 9;

constexpr size_t kSlotBytes = 64 << 10, kSlotFloats = kSlotBytes / sizeof(float);
constexpr uint64_t kSlots = 8;

struct Line {  // one rank's tiny message: `seq` publishes `values`
  alignas(64) std::atomic<uint64_t> seq{0};
  float values[12];
};

struct Pipe {  // a bounded FIFO of slices: `head` publishes a slot, `tail` returns it
  alignas(64) std::atomic<uint64_t> head{0};
  alignas(64) std::atomic<uint64_t> tail{0};
  alignas(64) float slot[kSlots][kSlotFloats];
};

struct Shared {
  Line line[2][2];
  Pipe pipe[2];
  exchanges::Area exchanges;
  std::atomic<bool> direct[2];  // whether a rank may access the other's memory
  alignas(64) std::atomic<unsigned> arrived{0};
  alignas(64) std::atomic<unsigned> phase{0};
  alignas(64) std::atomic<int> ball{0};
  alignas(64) std::atomic<int> iters{0};
  alignas(64) std::atomic<double> peers_batch{0};  // seconds per call, of rank 1
};

inline Shared* shared;
inline float* memory[4];  // in0 in1 out0 out1, mapped by both processes
inline size_t capacity;

template <typename T>
T* map_shared(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) std::perror("mmap"), std::exit(1);
  madvise(p, bytes, MADV_HUGEPAGE);
  return static_cast<T*>(p);
}

inline void barrier2() {
  const unsigned phase = shared->phase.load(std::memory_order_acquire);
  if (shared->arrived.fetch_add(1, std::memory_order_acq_rel) == 1) {
    shared->arrived.store(0, std::memory_order_relaxed);
    shared->phase.store(phase + 1, std::memory_order_release);
  } else {
    while (shared->phase.load(std::memory_order_acquire) == phase) {
    }
  }
}

// From the command line: the requested figures.
inline std::vector<std::string> wanted;
inline bool is_wanted(const char* figure) {
  return wanted[0] == "all" || std::find(wanted.begin(), wanted.end(), figure) != wanted.end();
}

inline bool fresh = false;  // from the command line
inline bool can_copy_directly = false;

inline void renew(std::span<float> input) {
  for (size_t i = 0; i < input.size(); i += 64 / sizeof(float)) {
    volatile float& first_of_line = input[i];
    first_of_line = first_of_line;
  }
}

// Seconds per call, over `iters` calls.
inline double seconds_per_call(int iters, std::span<float> input,
                               const std::function<void()>& work) {
  auto start = Clock::now();
  Clock::duration spent{};
  for (int i = 0; i < iters; i++) {
    if (fresh) renew(input), start = Clock::now();
    work();
    if (fresh) spent += Clock::now() - start;
  }
  if (!fresh) spent = Clock::now() - start;
  return std::chrono::duration<double>(spent).count() / iters;
}

// Runs `work`, which reads `input`, in both processes in step. Returns the slower one's median in
// µs per call, on rank 0.
inline double microseconds(int rank, std::span<float> input, const std::function<void()>& work) {
  work();  // touches what it needs
  barrier2();
  const auto start = Clock::now();
  work();
  const double estimate = std::chrono::duration<double>(Clock::now() - start).count();
  if (rank == 0)
    shared->iters = std::clamp(static_cast<int>(0.05 / std::max(estimate, 1e-9)), 3, 100000);
  barrier2();
  const int iters = shared->iters;
  std::vector<double> batches;
  for (int b = 0; b < kBatches; b++) {
    barrier2();
    const double mine = seconds_per_call(iters, input, work);
    if (rank == 1) shared->peers_batch = mine;
    barrier2();
    batches.push_back(std::max(mine, shared->peers_batch.load()));
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2] * 1e6;
}

inline void print(const char* figure, size_t bytes, double usec, const char* way) {
  std::printf("%s,%zu,%.3f,%s\n", figure, bytes, usec, way);
  std::fflush(stdout);
}

inline void measure(int rank, const char* figure, size_t bytes, std::span<float> input,
                    const std::function<void()>& work) {
  if (!is_wanted(figure)) return;
  const double usec = microseconds(rank, input, work);
  if (rank == 0) print(figure, bytes, usec, "");
}

inline char* bytes_of(float* p) { return reinterpret_cast<char*>(p); }

}  // namespace limits
