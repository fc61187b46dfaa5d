// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory of GPUs that users of this process have of ccoll::allocate or have registered, so
/// that whoever may lend some of it finds it. As transport/registered_memory.hpp is for the host's.
/// Only in builds with CUDA, of which it knows nothing here.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/result.hpp"
#include "gpu/memory/lendable.hpp"
#include "system/process_mutex.hpp"

namespace ccoll::device {

/// One table per process, for all its ranks. Thread-safe.
class Registrations {
 public:
  /// Whoever has let others map some of it.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    /// Nobody may be lent any of it any more. From any thread; must not block.
    virtual void withdraw(std::uint64_t id) = 0;
  };

  static Registrations& of_process();

  /// `invalid_argument` where some of it is there already.
  Status add(std::shared_ptr<Lendable> memory);
  /// Tells all watchers.
  void remove(const Lendable& memory);
  /// What all of [data, data + bytes) lies in; null if nothing.
  std::shared_ptr<Lendable> find(const std::byte* data, std::uint64_t bytes) const;
  /// What has that number; null: none.
  std::shared_ptr<Lendable> find(std::uint64_t id) const;
  /// For as long as it lives.
  void watch(const std::weak_ptr<Watcher>& watcher);

 private:
  using End = const std::byte*;  // one past the last byte

  mutable ProcessMutex mu_;
  std::map<End, std::shared_ptr<Lendable>> by_end_;  // guarded by mu_
  std::vector<std::weak_ptr<Watcher>> watchers_;     // guarded by mu_
};

}  // namespace ccoll::device
