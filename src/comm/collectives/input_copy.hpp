// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An all_to_all whose input and output share memory: no algorithm works there, so the input is
/// copied before anything is read, and the call reads the copy.

#include <cstddef>
#include <memory>

#include "core/result.hpp"
#include "engine/plan.hpp"

namespace ccoll {

struct Call;

class InputCopy {
 public:
  /// Makes `run` read the copy. Fails with exhausted if there is no memory.
  static Result<InputCopy> make(const Call& call, std::uint32_t rank, std::uint32_t size,
                                PlanRun& run);
  /// Copies, before the plan begins.
  void operator()() const;

 private:
  BufferView input_;
  std::size_t elems_ = 0;
  std::size_t elem_bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace ccoll
