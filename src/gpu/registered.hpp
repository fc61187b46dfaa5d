// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of a GPU that ccoll::allocate gives, or a user registers: others of the host may be let
/// read it where it lies (registrations.hpp has those of the process). Without CUDA's headers; in a
/// build without CUDA there is none to be had.

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
  /// `device`: none: the calling thread's current one.
  static Result<std::unique_ptr<Registered>> make(std::optional<int> device, std::uint64_t bytes);
  /// Memory that a user has of CUDA, and keeps. Where others cannot have it, all it does is to say
  /// why, once in a process.
  static Result<std::unique_ptr<Registered>> of_user(std::byte* data, std::uint64_t bytes);
  /// Frees what make() gave, without waiting for anybody; where another rank of this process has
  /// been let read it, once that has heard of it. In a forked child it does nothing.
  virtual ~Registered() = default;
  /// Takes back from others what has been lent; whether within `limit` nobody has it any more for
  /// whom its owner must keep it.
  virtual bool is_back_within(std::chrono::milliseconds limit) = 0;

  virtual std::byte* data() const = 0;
};

}  // namespace ccoll::device
