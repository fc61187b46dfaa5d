// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Blocks of different sizes for one call of a v-operation, from `--splits`. With `--rows` they are
/// columns of a matrix.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/operations.hpp"
#include "core/result.hpp"

namespace ccoll::show {

class Splits {
 public:
  /// "1,2,0": the elements of each rank's block; for all_to_all_v those that every rank sends to
  /// each, or a list for each sender, "1,2/3,4". Empty: r + 1 elements for rank r. Fails unless
  /// there is one for each of `size` ranks. With `rows`, the numbers are columns of so many
  /// elements each, and a buffer is a matrix in which the blocks lie side by side.
  static Result<Splits> of(const bench::Operation& operation, const std::string& text, int size,
                           std::optional<std::uint64_t> rows = {});

  /// The sizes of a rank's input and output, in elements.
  std::uint64_t input_elems(int rank, int root) const;
  std::uint64_t output_elems(int rank, int root) const;
  /// The mean block's elements, for Communicator::algorithm_for.
  std::uint64_t mean() const;
  /// "1,2/3,4".
  std::string text() const;

  std::optional<std::uint64_t> rows() const { return rows_; }
  /// The one number in all lists.
  std::optional<std::uint64_t> same_for_all() const;

  /// Makes the call, with each rank's blocks consecutive in `arguments`' buffers, or side by side.
  void call(Communicator& communicator, const bench::Arguments& arguments) const;

 private:
  using Row = std::vector<std::uint64_t>;

  Splits(const bench::Operation& operation, std::optional<std::uint64_t> rows)
      : operation_(&operation), rows_(rows) {}
  /// A number of `lists_` counts so many elements.
  std::uint64_t unit() const { return rows_.value_or(1); }
  const Row& sent_by(int rank) const;
  Row received_by(int rank) const;

  const bench::Operation* operation_;
  std::optional<std::uint64_t> rows_;
  std::vector<Row> lists_;  ///< one for all ranks, or one for each sender
};

}  // namespace ccoll::show
