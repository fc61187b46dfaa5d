// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/handle.hpp"

#include <pthread.h>

#include <deque>
#include <span>
#include <utility>

#include "system/locks.hpp"
#include "system/runtime.hpp"

// A handle points to this. It is never freed, so that a dead handle can be recognised.
struct ncclComm {
  static constexpr std::uint64_t kAlive = 0x63636f6c6c2d7570;
  static constexpr std::uint64_t kDead = 0x63636f6c6c2d6e6f;

  std::atomic<std::uint64_t> magic = kDead;
  unsigned process = 0;  ///< forks between the first process and the maker's
  ccoll::Guarded<std::shared_ptr<ccoll::nccl::Comm>> comm;
};

namespace ccoll::nccl {
namespace {

struct Forks {
  std::atomic<unsigned> count = 0;
};

unsigned forks() { return Runtime::one<Forks>().count.load(std::memory_order_relaxed); }

/// Dead handles, the longest dead first. They are used again, but late: until then, a program that
/// uses one gets an error.
struct Dead {
  static constexpr std::size_t kKept = 1024;

  std::deque<ncclComm*> all;

  ncclComm* take() {
    // Many at once: single ones would lie between communicators' freed memory, and keep it.
    if (all.size() <= kKept)
      for (auto& each : std::span(new ncclComm[kKept], kKept)) all.push_front(&each);
    auto* const taken = all.front();
    all.pop_front();
    return taken;
  }
};

Guarded<Dead, ProcessMutex>& dead() { return Runtime::one<Guarded<Dead, ProcessMutex>>(); }

/// The count is made first: a child that is forked amid this cannot make it.
[[maybe_unused]] const int fork_registered =
    (static_cast<void>(Runtime::one<Forks>()),
     ::pthread_atfork(nullptr, nullptr, [] { Runtime::one<Forks>().count++; }));

void check(ncclComm_t handle) {
  if (handle == nullptr) refuse(ncclInvalidArgument, "comm is NULL");
  const auto address = reinterpret_cast<std::uintptr_t>(handle);
  const bool is_aligned = address % alignof(ncclComm) == 0;
  const auto magic = is_aligned ? handle->magic.load(std::memory_order_acquire) : 0;
  if (magic == ncclComm::kDead) refuse(ncclInvalidArgument, "comm was destroyed or aborted before");
  if (magic != ncclComm::kAlive) refuse(ncclInvalidArgument, "comm is not a communicator");
  if (handle->process != forks())
    refuse(ncclInvalidUsage,
           "comm belongs to the parent process: a forked child must make its own communicators");
}

}  // namespace

ncclComm_t new_handle(std::shared_ptr<Comm> comm) {
  auto* const handle = dead().lock()->take();
  *handle->comm.lock() = std::move(comm);
  handle->process = forks();
  handle->magic.store(ncclComm::kAlive, std::memory_order_release);
  return handle;
}

std::shared_ptr<Comm> comm_of(ncclComm_t handle) {
  check(handle);
  auto comm = *handle->comm.lock();
  if (!comm) refuse(ncclInvalidArgument, "comm was destroyed or aborted before");
  return comm;
}

std::shared_ptr<Comm> taken(ncclComm_t handle) {
  check(handle);
  auto comm = handle->comm.with([&](std::shared_ptr<Comm>& own) {
    handle->magic.store(ncclComm::kDead, std::memory_order_release);
    return std::exchange(own, nullptr);
  });
  if (!comm) refuse(ncclInvalidArgument, "comm was destroyed or aborted before");
  dead().lock()->all.push_back(handle);
  return comm;
}

}  // namespace ccoll::nccl
