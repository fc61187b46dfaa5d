// SPDX-License-Identifier: Apache-2.0
#include "transport/registered_memory.hpp"

#include <pthread.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "system/runtime.hpp"

namespace ccoll {

namespace {

/// Null until first use. Never destroyed: the program's memory may end later at exit. A forked
/// child begins anew: it may unmap what its parent registered, and locks may be held there forever.
struct Current {
  std::atomic<RegisteredMemories*> memories = nullptr;
};
/// The pointer is made first: a child that is forked amid this cannot make it.
[[maybe_unused]] const int fork_registered =
    (static_cast<void>(Runtime::one<Current>()),
     pthread_atfork(nullptr, nullptr, [] { Runtime::one<Current>().memories = nullptr; }));

}  // namespace

RegisteredMemories& RegisteredMemories::of_process() {
  auto& current = Runtime::one<Current>().memories;
  RegisteredMemories* made = current.load(std::memory_order_acquire);
  if (made != nullptr) return *made;
  auto fresh = std::make_unique<RegisteredMemories>();
  return current.compare_exchange_strong(made, fresh.get()) ? *fresh.release() : *made;
}

Result<std::uint32_t> RegisteredMemories::add(const std::byte* data, std::size_t bytes,
                                              FileDescriptor file, std::uint64_t file_offset) {
  const auto registered = registered_.lock();
  auto& by_end = registered->by_end;
  const auto after = by_end.upper_bound(data);
  if (after != by_end.end() && std::less<>()(after->second->data, data + bytes))
    return fail(ErrorKind::invalid_argument, "some of these {} bytes at {} are registered already",
                bytes, static_cast<const void*>(data));
  const auto number = ++registered->last_number;
  RegisteredMemory memory{number, data, bytes, std::move(file), file_offset};
  by_end.emplace(data + bytes, std::make_shared<const RegisteredMemory>(std::move(memory)));
  count_.store(by_end.size(), std::memory_order_relaxed);
  return number;
}

void RegisteredMemories::remove(std::uint32_t number) {
  {
    const auto registered = registered_.lock();
    auto& by_end = registered->by_end;
    std::erase_if(by_end, [&](const auto& each) { return each.second->number == number; });
    count_.store(by_end.size(), std::memory_order_relaxed);
  }
  std::vector<std::shared_ptr<Watcher>> told;
  {
    const auto watchers = watchers_.lock();
    std::erase_if(watchers->all, [](const auto& each) { return each.expired(); });
    for (const auto& each : watchers->all)
      if (auto watcher = each.lock()) told.push_back(std::move(watcher));
  }
  // Call without the lock: this may drop the last reference to a watcher.
  for (const auto& watcher : told) watcher->withdraw(number);
}

std::shared_ptr<const RegisteredMemory> RegisteredMemories::find(const std::byte* data,
                                                                 std::size_t bytes) const {
  // The relaxed load suffices: the memory was registered on this thread, or handed over to it.
  if (count_.load(std::memory_order_relaxed) == 0) return nullptr;
  const auto registered = registered_.lock_shared();
  const auto found = registered->by_end.upper_bound(data);
  if (found == registered->by_end.end()) return nullptr;
  const auto& memory = *found->second;
  const bool whole = !std::less<>()(data, memory.data) && bytes <= std::size_t(found->first - data);
  return whole ? found->second : nullptr;
}

void RegisteredMemories::watch(const std::weak_ptr<Watcher>& watcher) {
  const auto watchers = watchers_.lock();
  if (watchers->all.size() >= watchers->look_at) {
    std::erase_if(watchers->all, [](const auto& each) { return each.expired(); });
    watchers->look_at = std::max(kFewWatchers, 2 * watchers->all.size());
  }
  watchers->all.push_back(watcher);
}

}  // namespace ccoll
