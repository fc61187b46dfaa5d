// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of a GPU that ccoll::allocate gives: others of the host may be let read it where it lies
/// (registrations.hpp has those of the process). Without CUDA's headers; in a build without CUDA
/// there is none to be had.

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
  /// Frees it, without waiting for anybody; where another rank of this process has been let read
  /// it, once that has heard of it. In a forked child it does nothing.
  virtual ~Registered() = default;

  virtual std::byte* data() const = 0;
};

}  // namespace ccoll::device
