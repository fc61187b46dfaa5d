// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/handle.hpp"

#include <pthread.h>

#include <deque>
#include <mutex>

#include "system/process_mutex.hpp"

// A handle points to this. It is never freed, so that a handle that leads nowhere can be told.
struct ncclComm {
  static constexpr std::uint64_t kAlive = 0x63636f6c6c2d7570;
  static constexpr std::uint64_t kDead = 0x63636f6c6c2d6e6f;

  std::atomic<std::uint64_t> magic = kAlive;
  unsigned process = 0;  ///< how many forks are between the first process and the maker's
  std::mutex mutex;
  std::shared_ptr<ccoll::nccl::Comm> comm;  // guarded by mutex
};

namespace ccoll::nccl {
namespace {

std::atomic<unsigned> forks = 0;

/// Those that lead nowhere, the longest dead first. They are used again, but late: until then a
/// program that uses a dead one is told so.
struct Dead {
  static constexpr std::size_t kKept = 1024;

  ProcessMutex mutex;
  std::deque<ncclComm*> all;
};

Dead& dead() {
  static auto* const one = [] {
    ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
    return new Dead;  // never destroyed: threads may use handles while the process ends
  }();
  return *one;
}

void check(ncclComm_t handle) {
  if (handle == nullptr) refuse(ncclInvalidArgument, "comm is NULL");
  const auto address = reinterpret_cast<std::uintptr_t>(handle);
  const bool is_aligned = address % alignof(ncclComm) == 0;
  const auto magic = is_aligned ? handle->magic.load(std::memory_order_acquire) : 0;
  if (magic == ncclComm::kDead) refuse(ncclInvalidArgument, "comm was destroyed or aborted before");
  if (magic != ncclComm::kAlive) refuse(ncclInvalidArgument, "comm is no communicator");
  if (handle->process != forks.load(std::memory_order_relaxed))
    refuse(ncclInvalidUsage,
           "comm is the parent process's: a forked child makes communicators of its own");
}

}  // namespace

ncclComm_t new_handle(std::shared_ptr<Comm> comm) {
  auto& old = dead();
  ncclComm* handle = nullptr;
  {
    const std::lock_guard lock(old.mutex);
    if (old.all.size() > Dead::kKept) {
      handle = old.all.front();
      old.all.pop_front();
    }
  }
  if (handle == nullptr) handle = new ncclComm;
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
  auto& old = dead();
  const std::lock_guard lock(old.mutex);
  old.all.push_back(handle);
  return comm;
}

}  // namespace ccoll::nccl
