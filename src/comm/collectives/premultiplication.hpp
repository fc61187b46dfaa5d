// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The multiplication before a pre-multiplied sum.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/result.hpp"
#include "engine/plan.hpp"
#include "kernels/combine.hpp"

namespace ccoll {

struct Call;

/// Multiplies once per call and before anything is read, so that no algorithm needs to know of it.
/// If the output is as long as the input, in one piece and the rank's to write, the products go
/// there and the run is in place. Otherwise they have memory of their own.
class Premultiplication {
 public:
  /// Makes `run` read the products of its input. Fails with exhausted if there is no memory.
  static Result<Premultiplication> make(const Call& call, std::uint32_t rank, std::uint32_t size,
                                        PlanRun& run);
  /// Multiplies.
  void operator()() const;

 private:
  BufferView input_;
  std::byte* products_ = nullptr;
  std::size_t elems_ = 0;
  std::size_t elem_bytes_ = 0;
  ScaleFunction scale_ = nullptr;
  element::Factor factor_;
  const void* factor_place_ = nullptr;  ///< where the factor is when it multiplies; null: known
  DataType factor_type_ = DataType::uint8;
  std::unique_ptr<std::byte[]> own_;
};

}  // namespace ccoll
