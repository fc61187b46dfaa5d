// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of this process that others of its host may map: a link to one of them can lend a slice
/// of it where another would be copied. One table per process, for all its ranks. Thread-safe.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll {

struct RegisteredMemory {
  std::uint32_t number;  ///< no two of a process have the same, also one after the other
  const std::byte* data;
  std::size_t bytes;
  FileDescriptor file;  ///< what it is a mapping of
  std::uint64_t file_offset;
};

class RegisteredMemories {
 public:
  /// Whoever has let others map some of it.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    /// It is not registered any more. From any thread; must not block.
    virtual void withdraw(std::uint32_t number) = 0;
  };

  static RegisteredMemories& of_process();

  /// Its number. `invalid_argument` where some of it is registered already.
  Result<std::uint32_t> add(const std::byte* data, std::size_t bytes, FileDescriptor file,
                            std::uint64_t file_offset);
  /// Tells all watchers.
  void remove(std::uint32_t number);
  /// What all of [data, data + bytes) lies in; null if nothing. Cheap where nothing is registered.
  std::shared_ptr<const RegisteredMemory> find(const std::byte* data, std::size_t bytes) const;
  /// For as long as it lives.
  void watch(const std::weak_ptr<Watcher>& watcher);

 private:
  static constexpr std::size_t kFewWatchers = 64;
  using End = const std::byte*;  // one past the last byte

  std::atomic<std::size_t> count_{0};
  mutable std::shared_mutex mutex_;
  std::map<End, std::shared_ptr<const RegisteredMemory>> by_end_;  // guarded by mutex_
  std::uint32_t last_number_ = 0;                                  // guarded by mutex_
  std::mutex watchers_mutex_;
  std::vector<std::weak_ptr<Watcher>> watchers_;  // guarded by watchers_mutex_
  std::size_t look_at_ = kFewWatchers;  // guarded by watchers_mutex_: size at which to drop some
};

}  // namespace ccoll
