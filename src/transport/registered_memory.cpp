// SPDX-License-Identifier: Apache-2.0
#include "transport/registered_memory.hpp"

#include <pthread.h>

#include <algorithm>
#include <functional>
#include <memory>

namespace ccoll {

/// Null until first use. Never destroyed: the program's memory may end later at exit. A forked
/// child begins anew: it may unmap what its parent registered, and locks may be held there forever.
constinit static std::atomic<RegisteredMemories*> instance = nullptr;
[[maybe_unused]] static const int registered =
    pthread_atfork(nullptr, nullptr, [] { instance = nullptr; });

RegisteredMemories& RegisteredMemories::of_process() {
  RegisteredMemories* made = instance.load(std::memory_order_acquire);
  if (made != nullptr) return *made;
  auto fresh = std::make_unique<RegisteredMemories>();
  return instance.compare_exchange_strong(made, fresh.get()) ? *fresh.release() : *made;
}

Result<std::uint32_t> RegisteredMemories::add(const std::byte* data, std::size_t bytes,
                                              FileDescriptor file, std::uint64_t file_offset) {
  std::unique_lock lock(mutex_);
  const auto after = by_end_.upper_bound(data);
  if (after != by_end_.end() && std::less<>()(after->second->data, data + bytes))
    return fail(ErrorKind::invalid_argument, "some of these {} bytes at {} are registered already",
                bytes, static_cast<const void*>(data));
  const auto number = ++last_number_;
  RegisteredMemory memory{number, data, bytes, std::move(file), file_offset};
  by_end_.emplace(data + bytes, std::make_shared<const RegisteredMemory>(std::move(memory)));
  count_.store(by_end_.size(), std::memory_order_relaxed);
  return number;
}

void RegisteredMemories::remove(std::uint32_t number) {
  {
    std::unique_lock lock(mutex_);
    std::erase_if(by_end_, [&](const auto& each) { return each.second->number == number; });
    count_.store(by_end_.size(), std::memory_order_relaxed);
  }
  std::vector<std::shared_ptr<Watcher>> told;
  {
    std::lock_guard lock(watchers_mutex_);
    std::erase_if(watchers_, [](const auto& each) { return each.expired(); });
    for (const auto& each : watchers_)
      if (auto watcher = each.lock()) told.push_back(std::move(watcher));
  }
  // Call without the lock: this may drop the last reference to a watcher.
  for (const auto& watcher : told) watcher->withdraw(number);
}

std::shared_ptr<const RegisteredMemory> RegisteredMemories::find(const std::byte* data,
                                                                 std::size_t bytes) const {
  // The relaxed load suffices: the memory was registered on this thread, or handed over to it.
  if (count_.load(std::memory_order_relaxed) == 0) return nullptr;
  std::shared_lock lock(mutex_);
  const auto found = by_end_.upper_bound(data);
  if (found == by_end_.end()) return nullptr;
  const auto& memory = *found->second;
  const bool whole = !std::less<>()(data, memory.data) && bytes <= std::size_t(found->first - data);
  return whole ? found->second : nullptr;
}

void RegisteredMemories::watch(const std::weak_ptr<Watcher>& watcher) {
  std::lock_guard lock(watchers_mutex_);
  if (watchers_.size() >= look_at_) {
    std::erase_if(watchers_, [](const auto& each) { return each.expired(); });
    look_at_ = std::max(kFewWatchers, 2 * watchers_.size());
  }
  watchers_.push_back(watcher);
}

}  // namespace ccoll
