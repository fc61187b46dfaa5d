// SPDX-License-Identifier: Apache-2.0
// Memory that the library gives out, and memory that programs register.
#include "ccoll/memory.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "faces/nccl/handle.hpp"
#include "faces/nccl/results.hpp"
#include "faces/nccl/settings/environment.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"

namespace ccoll::nccl {
namespace {

/// Alignment of NCCL's memory.
constexpr std::size_t kAlignment = std::size_t{2} << 20;

/// Memory that ncclMemAlloc has given out in host mode.
struct Given {
  std::map<void*, Memory> by_address;
};

Guarded<Given>& given_out() { return Runtime::one<Guarded<Given>>(); }

/// Memory that ranks of this host read directly.
void* allocate_on_host(std::size_t bytes) {
  const auto needed = std::max<std::size_t>(bytes, 1);
  std::size_t room = 0;
  if (__builtin_add_overflow(needed, kAlignment, &room))
    refuse(ncclSystemError, "size is {} bytes: no memory is that large", bytes);
  auto memory = ccoll::allocate(room);
  void* at = memory.data();
  at = std::align(kAlignment, needed, at, room);
  given_out().lock()->by_address.emplace(at, std::move(memory));
  return at;
}

void free_on_host(void* at) {
  if (given_out().lock()->by_address.erase(at) == 0)
    refuse(ncclInvalidArgument, "ptr does not come from ncclMemAlloc");
}

/// A range as programs register it: with every communicator, again, and overlapping with others.
using Range = std::pair<void*, std::size_t>;

/// Lends a range to other ranks as long as anybody has it registered.
struct Lent {
  Memory memory;  ///< none if ccoll cannot lend it, or lends some of it already
  int users = 0;
};

/// Registered ranges of all communicators. A handle points to its range.
struct Registered {
  std::map<Range, Lent> ranges;
  std::set<const Range*> handles;
};

Guarded<Registered>& registered() { return Runtime::one<Guarded<Registered>>(); }

/// The user has been told that some memory is copied.
struct NotLent {
  std::atomic<bool> is_told = false;
};

/// Lending is a hint: without it the memory is copied.
Memory lent(const Range& range) {
  try {
    return register_memory(range.first, range.second);
  } catch (const Error& error) {
    if (!Runtime::one<NotLent>().is_told.exchange(true))
      log().info("ncclCommRegister: memory is copied as if it were not registered: {}",
                 error.what());
    return {};
  }
}

const Range* registered_now(const Range& range, bool is_on_device) {
  auto handle = std::make_unique<Range>(range);
  const auto all = registered().lock();
  auto& entry = all->ranges[range];
  // Host memory is lent without being registered.
  if (entry.users++ == 0 && is_on_device) entry.memory = lent(range);
  all->handles.insert(handle.get());
  return handle.release();
}

/// Returns the Memory of a range that nobody has registered any more; none if it still is.
Memory taken_back(const void* given) {
  const auto* const handle = static_cast<const Range*>(given);
  const auto all = registered().lock();
  if (all->handles.erase(handle) == 0)
    refuse(ncclInvalidUsage, "handle does not come from ncclCommRegister");
  const std::unique_ptr<const Range> owned(handle);
  const auto entry = all->ranges.find(*handle);
  if (--entry->second.users > 0) return {};
  auto memory = std::move(entry->second.memory);
  all->ranges.erase(entry);
  // Deregister it at once, so that it may be registered anew; this waits for nobody.
  if (memory.reset_within(std::chrono::milliseconds(0))) return {};
  return memory;
}

void deregister(const void* given) {
  // The program may free the memory when this returns.
  constexpr std::chrono::seconds kPatience{1};
  auto memory = taken_back(given);
  // Wait without the lock: other threads' calls would wait as long, one after another.
  if (!memory.reset_within(kPatience))
    log().warn(
        "ncclCommDeregister: another rank still maps the registered GPU memory; do not free it "
        "before all ranks have unmapped it");
}

void check_range(const void* buffer, std::size_t bytes) {
  if (buffer == nullptr) refuse(ncclInvalidArgument, "buff is NULL");
  if (bytes == 0) refuse(ncclInvalidArgument, "size is 0: expected 1 or more");
}

}  // namespace
}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, MemAlloc, void** ptr, size_t size) {
  return guarded("ncclMemAlloc", [&] {
    given(ptr, "ptr") = nullptr;
    check_environment();
    *ptr = settings().host ? allocate_on_host(size) : device::allocate(size);
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, MemFree, void* ptr) {
  return guarded("ncclMemFree", [&] {
    if (ptr == nullptr) return ncclSuccess;
    if (settings().host)
      free_on_host(ptr);
    else
      device::release(ptr);
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommRegister, const ncclComm_t comm, void* buff, size_t size,
                void** handle) {
  return guarded("ncclCommRegister", [&] {
    const auto it = comm_of(comm);
    it->check_known();
    check_range(buff, size);
    if (handle == nullptr) return ncclSuccess;
    *handle = nullptr;
    if (settings().registers)
      *handle = const_cast<Range*>(registered_now({buff, size}, it->device() != ccoll::kHost));
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommDeregister, const ncclComm_t comm, void* handle) {
  return guarded("ncclCommDeregister", [&] {
    comm_of(comm);
    if (handle != nullptr) deregister(handle);
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommWindowRegister, ncclComm_t comm, void* buff, size_t size,
                ncclWindow_t* win, int /*winFlags*/) {
  return guarded("ncclCommWindowRegister", [&] {
    comm_of(comm)->check_known();
    check_range(buff, size);
    // As in NCCL if memory cannot be symmetric: no window, and clients do without.
    given(win, "win") = nullptr;
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommWindowDeregister, ncclComm_t comm, ncclWindow_t win) {
  return guarded("ncclCommWindowDeregister", [&] {
    comm_of(comm);
    if (win != nullptr)
      refuse(ncclInvalidArgument, "win is not a window: this library has no windows");
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, WinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void** ptr) {
  return guarded("ncclWinGetUserPtr", [&] {
    comm_of(comm);
    given(ptr, "ptr") = nullptr;
    if (win != nullptr)
      refuse(ncclInvalidArgument, "win is not a window: this library has no windows");
    return ncclSuccess;
  });
}
