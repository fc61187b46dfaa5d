// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Inputs and expected outputs, chosen such that every result is exact. Whatever an algorithm's
/// order, grouping and rounding, one bit pattern is correct, so the check has no tolerance. Does
/// not depend on communicators.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ccoll/types.hpp"

namespace ccoll::bench {

/// Inputs repeat after this many elements: a prime, so that no two blocks or slices of a power of
/// two begin at the same place of the pattern.
inline constexpr std::uint64_t kPeriod = 1021;

/// Determines a pattern. Without `op` the elements are arbitrary bits, NaNs included, because they
/// are only copied.
struct Recipe {
  DataType type = DataType::float32;
  std::optional<ReduceOp> op;
  int size = 1;  ///< the number of ranks that contribute
};

/// Element i of rank `rank`'s input is element i % kPeriod of this.
std::vector<std::byte> make_input_period(const Recipe& recipe, int rank);
/// The same for the reduction of all ranks' inputs; `recipe.op` is set.
std::vector<std::byte> make_reduced_period(const Recipe& recipe);

/// The periods of a recipe, created on demand.
class Patterns {
 public:
  explicit Patterns(const Recipe& recipe) : recipe_(recipe) {}
  const Recipe& recipe() const { return recipe_; }
  std::span<const std::byte> input(int rank);
  std::span<const std::byte> reduced();

 private:
  Recipe recipe_;
  std::map<int, std::vector<std::byte>> inputs_;
  std::vector<std::byte> reduced_;
};

/// Fills `elems` elements with the pattern from its element `first` on.
void fill(std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
          std::span<const std::byte> period, std::uint64_t first);

/// How many of the elements differ, bit for bit, from the output of `fill`.
std::uint64_t count_wrong(const std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
                          std::span<const std::byte> period, std::uint64_t first);

}  // namespace ccoll::bench
