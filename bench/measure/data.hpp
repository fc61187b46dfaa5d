// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What ranks put in and what must come out, such that every result is exact: whichever order and
/// grouping an algorithm adds in, and however often it rounds on the way, only one bit pattern is
/// right, so the check has no tolerance. Knows nothing of communicators.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ccoll/types.hpp"

namespace ccoll::bench {

/// Inputs repeat after this many elements: a prime, so that no block or slice of a power of two
/// begins at the same place of the pattern as another.
inline constexpr std::uint64_t kPeriod = 1021;

/// What decides a pattern. Without `op` the elements are arbitrary bits, NaNs included: they are
/// only copied.
struct Recipe {
  DataType type = DataType::float32;
  std::optional<ReduceOp> op;
  int size = 1;  ///< how many ranks contribute
};

/// Element i of rank `rank`'s input is element i % kPeriod of this.
std::vector<std::byte> make_input_period(const Recipe& recipe, int rank);
/// The same for the reduction of all ranks' inputs; `recipe.op` is set.
std::vector<std::byte> make_reduced_period(const Recipe& recipe);

/// The periods of a recipe, made when first asked for.
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

/// How many of the elements differ, bit for bit, from what `fill` would write.
std::uint64_t count_wrong(const std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
                          std::span<const std::byte> period, std::uint64_t first);

}  // namespace ccoll::bench
