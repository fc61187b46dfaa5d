// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of a GPU that ccoll::allocate gives, or a user registers: other ranks of the host may
/// read it where it lies (registrations.hpp has the process's table). Needs no CUDA headers. A
/// build without CUDA has no such memory.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/result.hpp"

namespace ccoll::device {

class Registered {
 public:
  /// At least `bytes` of a GPU, which that GPU and those of this process that reach it may use.
  /// `device`: if empty, the calling thread's current one.
  static Result<std::unique_ptr<Registered>> make(std::optional<int> device, std::uint64_t bytes);
  /// Memory that a user has from CUDA, and keeps. If others cannot have it, this only logs why,
  /// once in a process.
  static Result<std::unique_ptr<Registered>> of_user(std::byte* data, std::uint64_t bytes);
  /// Frees what make() gave, without waiting for anybody. If another rank of this process may read
  /// it, it is freed once that rank has heard of it. In a forked child it does nothing.
  virtual ~Registered() = default;
  /// Takes back from others what has been lent. Returns whether, within `limit`, no other rank has
  /// it any more for which its owner must keep it.
  virtual bool is_back_within(std::chrono::milliseconds limit) = 0;

  virtual std::byte* data() const = 0;
};

}  // namespace ccoll::device
