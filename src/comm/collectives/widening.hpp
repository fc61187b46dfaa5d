// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Averages of float16 and float8, whose partial sums leave the range of their type although no
/// average does. An algorithm that combines all contributions in one step does so in float32 and
/// rounds once. For any other one, the call's elements become float32 before the plan begins, and
/// results are rounded once when it is over: no algorithm needs to know of it.

#include <cstddef>
#include <memory>

#include "algorithms/algorithms.hpp"
#include "ccoll/reduction.hpp"
#include "core/result.hpp"
#include "engine/plan.hpp"
#include "kernels/convert.hpp"

namespace ccoll {

struct Call;

/// Whether it is an average of a type with less range than the type it is combined in.
bool averages_narrow_floats(const Call& call);

/// Whether such a call is made in float32 if it is made by that algorithm.
bool is_widened(const Call& call, Algorithm algorithm, Rank size);

/// An algorithm for the call, and the type of the elements that it combines.
struct TypedChoice {
  Chosen chosen;
  DataType type;
};
TypedChoice choose_for(const Call& call, const Problem& problem, const CostTable& costs,
                       const Forced& forced);

/// The buffers of a widened call.
class Widening {
 public:
  /// Makes `run` use float32 elements in this object's memory. Fails with exhausted if there is no
  /// memory.
  static Result<Widening> make(const Call& call, Rank rank, Rank size, PlanRun& run);
  /// Must come before the plan begins.
  void widen() const;
  /// Must come when it is over.
  void narrow() const;

 private:
  BufferView input_;
  BufferView output_;
  std::size_t input_elems_ = 0;
  std::size_t output_elems_ = 0;
  std::size_t elem_bytes_ = 0;
  Conversion conversion_;
  std::unique_ptr<float[]> memory_;
  float* results_ = nullptr;  ///< in it; the input is at its beginning
};

}  // namespace ccoll
