// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of this process that other processes of its host may map. A link to one of them can lend
/// slices of it without a copy. One table per process, for all its ranks. Thread-safe.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"
#include "system/locks.hpp"

namespace ccoll {

struct RegisteredMemory {
  std::uint32_t number;  ///< never reused within a process
  const std::byte* data;
  std::size_t bytes;
  FileDescriptor file;  ///< the file that it maps
  std::uint64_t file_offset;
};

class RegisteredMemories {
 public:
  /// A user that has let others map some of it.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    /// Called when it is deregistered, from any thread; must not block.
    virtual void withdraw(std::uint32_t number) = 0;
  };

  static RegisteredMemories& of_process();

  /// Returns its number. `invalid_argument` if some of it is registered already.
  Result<std::uint32_t> add(const std::byte* data, std::size_t bytes, FileDescriptor file,
                            std::uint64_t file_offset);
  /// Deregisters it and tells all watchers.
  void remove(std::uint32_t number);
  /// The memory that contains all of [data, data + bytes), or null. Cheap if nothing is registered.
  std::shared_ptr<const RegisteredMemory> find(const std::byte* data, std::size_t bytes) const;
  /// Watches for as long as `watcher` lives.
  void watch(const std::weak_ptr<Watcher>& watcher);

 private:
  static constexpr std::size_t kFewWatchers = 64;
  using End = const std::byte*;  // one past the last byte

  struct Registered {
    std::map<End, std::shared_ptr<const RegisteredMemory>> by_end;
    std::uint32_t last_number = 0;
  };
  struct Watchers {
    std::vector<std::weak_ptr<Watcher>> all;
    std::size_t look_at = kFewWatchers;  ///< size at which to drop some
  };

  std::atomic<std::size_t> count_{0};
  Guarded<Registered, std::shared_mutex> registered_;
  Guarded<Watchers> watchers_;
};

}  // namespace ccoll
