// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The GPU memory that users of this process have from ccoll::allocate or have registered. A rank
/// that may lend some of it finds it here. transport/registered_memory.hpp is the same for host
/// memory. Only in builds with CUDA; knows no CUDA itself.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/result.hpp"
#include "gpu/memory/lendable.hpp"
#include "system/locks.hpp"

namespace ccoll::device {

/// One table per process, for all its ranks. Thread-safe.
class Registrations {
 public:
  /// A lender: it has let others map some of the memory.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    /// Nobody may be lent any of it from then on. Any thread may call; must not block.
    virtual void withdraw(std::uint64_t id) = 0;
  };

  static Registrations& of_process();

  /// `invalid_argument` if some of it is there already.
  Status add(std::shared_ptr<Lendable> memory);
  /// Tells all watchers.
  void remove(const Lendable& memory);
  /// The memory that all of [data, data + bytes) lies in; null if there is none.
  std::shared_ptr<Lendable> find(const std::byte* data, std::uint64_t bytes) const;
  /// The memory with that number; null: none.
  std::shared_ptr<Lendable> find(std::uint64_t id) const;
  /// Lasts as long as the watcher lives.
  void watch(const std::weak_ptr<Watcher>& watcher);

 private:
  using End = const std::byte*;  // one past the last byte

  struct Known {
    std::map<End, std::shared_ptr<Lendable>> by_end;
    std::vector<std::weak_ptr<Watcher>> watchers;
  };
  Guarded<Known, ProcessMutex> known_;
};

}  // namespace ccoll::device
