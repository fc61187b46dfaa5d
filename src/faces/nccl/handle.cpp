// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/handle.hpp"

#include <pthread.h>

#include <deque>
#include <mutex>
#include <span>

#include "system/locks.hpp"
#include "system/runtime.hpp"

// A handle points to this. It is never freed, so that a dead handle can be recognised.
struct ncclComm {
  static constexpr std::uint64_t kAlive = 0x63636f6c6c2d7570;
  static constexpr std::uint64_t kDead = 0x63636f6c6c2d6e6f;

  std::atomic<std::uint64_t> magic = kDead;
  unsigned process = 0;  ///< forks between the first process and the maker's
  std::mutex mutex;
  std::shared_ptr<ccoll::nccl::Comm> comm;  // guarded by mutex
};

namespace ccoll::nccl {
namespace {

std::atomic<unsigned> forks = 0;

/// Dead handles, the longest dead first. They are used again, but late: until then, a program that
/// uses one gets an error.
struct Dead {
  static constexpr std::size_t kKept = 1024;

  ProcessMutex mutex;
  std::deque<ncclComm*> all;

  ncclComm* take() {
    const std::lock_guard lock(mutex);
    // Many at once: single ones would lie between communicators' freed memory, and keep it.
    if (all.size() <= kKept)
      for (auto& each : std::span(new ncclComm[kKept], kKept)) all.push_front(&each);
    auto* const taken = all.front();
    all.pop_front();
    return taken;
  }
  void put(ncclComm* handle) {
    const std::lock_guard lock(mutex);
    all.push_back(handle);
  }
};

Dead& dead() { return Runtime::one<Dead>(); }

/// Runs before main, when no thread forks yet.
[[maybe_unused]] const int fork_registered =
    ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });

void check(ncclComm_t handle) {
  if (handle == nullptr) refuse(ncclInvalidArgument, "comm is NULL");
  const auto address = reinterpret_cast<std::uintptr_t>(handle);
  const bool is_aligned = address % alignof(ncclComm) == 0;
  const auto magic = is_aligned ? handle->magic.load(std::memory_order_acquire) : 0;
  if (magic == ncclComm::kDead) refuse(ncclInvalidArgument, "comm was destroyed or aborted before");
  if (magic != ncclComm::kAlive) refuse(ncclInvalidArgument, "comm is not a communicator");
  if (handle->process != forks.load(std::memory_order_relaxed))
    refuse(ncclInvalidUsage,
           "comm belongs to the parent process: a forked child must make its own communicators");
}

}  // namespace

ncclComm_t new_handle(std::shared_ptr<Comm> comm) {
  auto* const handle = dead().take();
  handle->comm = std::move(comm);
  handle->process = forks.load(std::memory_order_relaxed);
  handle->magic.store(ncclComm::kAlive, std::memory_order_release);
  return handle;
}

std::shared_ptr<Comm> comm_of(ncclComm_t handle) {
  check(handle);
  std::shared_ptr<Comm> comm;
  {
    const std::lock_guard lock(handle->mutex);
    comm = handle->comm;
  }
  if (!comm) refuse(ncclInvalidArgument, "comm was destroyed or aborted before");
  return comm;
}

std::shared_ptr<Comm> taken(ncclComm_t handle) {
  check(handle);
  std::shared_ptr<Comm> comm;
  {
    const std::lock_guard lock(handle->mutex);
    comm = std::move(handle->comm);
    handle->comm.reset();
    handle->magic.store(ncclComm::kDead, std::memory_order_release);
  }
  if (!comm) refuse(ncclInvalidArgument, "comm was destroyed or aborted before");
  dead().put(handle);
  return comm;
}

}  // namespace ccoll::nccl
