// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A GPU on the host: the part of CUDA's runtime that ccoll calls, and ccoll's kernels.
/// Programs linked with this run as on a device whose streams interleave in any order that events
/// allow. Queued work is kept and taken from streams at random when a caller waits. After the first
/// host function in a stream, a thread of the device takes it too. Memory is not zero at first;
/// memory shared by descriptor looks like words of tiny slices of the first calls.
/// Memory shared by descriptor and memory of cudaMalloc (shared by handle) are memfds, so processes
/// share them as on a device. Freeing what another process has open, which CUDA leaves undefined,
/// aborts with a message. Words that streams wait for are host memory. With CCOLL_WRONG_BITS=N, one
/// in N kernel outputs and device copies has a wrong bit.
/// CCOLL_GPU_COUNT sets the initial number of devices. Memory, streams and events belong to one
/// device. A kernel is refused in a stream of a device other than the current one, and so is an
/// event recorded in another device's stream. A kernel that is given unreachable memory ends with
/// an illegal address. A stream's clock advances by 1 ms per event with a time. Copies and waits
/// are not bound to the current device. Copies between devices need no peers (CUDA then goes
/// through the host). For mapped memory CUDA promises no such thing, so there a stream's device
/// copies only what it reaches.
/// CCOLL_GPU_FAULT: export or import (refused); later (imports after the first two are refused);
/// apart (an import yields other memory); handle (cudaMalloc memory has no handle); open (no handle
/// can be opened); elsewhere (opening yields other memory); endless (a kernel that reads opened
/// memory never ends); words (no stream sees the word it waits for); stale (one in three graph
/// launches moves no data); first (no kernel can be captured before its first launch); stall
/// (launching an adversary kernel stops the device); deaf (no kernel sees an abort); torn (one
/// block writes the halves of a word separately); full (a stream's queue holds 1,024 word writes,
/// and more wait for room); locked (full, and all other CUDA calls wait too); lonely (flags of a
/// team's kernel never reach other processes); garbled (one bit of what it writes for them is
/// wrong); mute (no words of tiny slices reach them); halved (only the half that names the call
/// reaches them); drift (everything takes longer and longer); old (the driver is for CUDA 12.4, too
/// old for the runtime).

#include <cuda_runtime_api.h>

#include <atomic>
#include <mutex>
#include <random>
#include <set>

#include "support/gpu/cuda_on_host.hpp"

namespace ccoll::testing::cuda {

/// Whether CCOLL_GPU_FAULT names this fault.
bool has_fault(const char* which);

/// Whether this thread runs a host function, which may not call CUDA.
inline thread_local bool in_host_function = false;

/// A recursive mutex that can be released for a moment at any depth.
class Mutex {
 public:
  void lock();
  void unlock();
  void rest();

 private:
  std::recursive_mutex mutex_;
  int depth_ = 0;  // guarded by mutex_
};

inline Mutex mu;
inline std::mt19937_64 chance{std::random_device{}()};

/// The sticky error of a broken device, on which nothing makes progress.
inline std::atomic<cudaError_t> broken_by{cudaSuccess};
/// The stall is permanent, and no call reports it.
inline std::atomic<bool> is_stalled = false;

extern int device_count;  // guarded by mu
// These are never destroyed: detached threads use them while the process ends.
inline auto& peers = *new std::set<std::pair<int, int>>;  // guarded by mu; pairs with access
inline cuda_on_host_peers peering = kPeersWell;           // guarded by mu; which GPUs reach which

inline thread_local int current_device = 0;
/// Calls of the driver need a current context and do not create one.
inline thread_local bool has_current_context = false;

/// Every runtime call that takes a stream, an event or memory creates the current device's context,
/// even if the object belongs to another device.
void use_current_device();

/// A multiprocessor of each device runs this many threads at once, with 64 registers each.
constexpr unsigned kThreadsAtOnce = 1024;
inline std::atomic<int> multiprocessors = 16;

/// With CCOLL_WRONG_BITS=N, spoils one of N outputs.
void maybe_spoil(std::byte* out, std::uint64_t bytes);

}  // namespace ccoll::testing::cuda
