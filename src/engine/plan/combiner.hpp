// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Computes a step's result from its sources, with one of the kernels or the caller's own function.
/// Has the memory that results and rows pass through; every step reuses it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ccoll/types.hpp"
#include "core/result.hpp"
#include "engine/custom_fold.hpp"
#include "engine/memory_range.hpp"
#include "engine/plan_request.hpp"
#include "kernels/combine.hpp"

namespace ccoll {

class Combiner {
 public:
  /// Rows that are gathered, or a result before it is scattered: a core's own cache keeps them.
  static constexpr std::size_t kRowsBytes = kGatherRoomBytes;

  /// For steps with so many sources at most. `op`: none if each run brings its own function.
  Combiner(DataType type, std::optional<ReduceOp> op, std::size_t most_sources);

  void prepare_rows();
  /// kRowsBytes for rows that are gathered, and as many for a result before it is scattered.
  std::byte* gathered() const { return rows_.get(); }
  std::byte* to_scatter() const { return rows_.get() + kRowsBytes; }

  /// The addresses of the present step's sources.
  const std::byte** sources() { return sources_.data(); }
  void combine(const std::byte* const* sources, std::size_t count, std::byte* out,
               std::size_t elems, std::uint32_t divisor) const {
    combine_(sources, count, out, elems, divisor);
  }

  /// Whether the run's own function combines.
  bool folds() const { return fold_ != nullptr; }
  void fold(const PlanRun& run, std::size_t count, std::byte* out, std::size_t bytes);
  /// Whether this is a child that the function forked, or the function has thrown.
  bool in_child() const { return fold_ && fold_->in_child(); }
  bool has_thrown() const { return fold_ && fold_->thrown(); }
  /// Says which of both it is.
  Failure fold_failure(const PlanRun& run) const;

 private:
  std::size_t elem_bytes_;
  CombineFunction combine_ = nullptr;
  std::unique_ptr<CustomFold> fold_;  ///< instead of combine_
  std::vector<const std::byte*> sources_;
  std::unique_ptr<std::byte[]> rows_;
};

}  // namespace ccoll
