// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Elements of NCCL's types and arithmetic on them, written for the tests alone: nothing here is
/// shared with the library that is judged. Inputs are such that every order of summing is exact,
/// so that each element has one right value; averages may be off by 2 units in the last place.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nccl.h"

namespace conformance {

struct Type {
  const char* name;
  ncclDataType_t number;
  std::size_t size;
  enum class Kind { signed_integer, unsigned_integer, floating } kind;
  int exponent_bits = 0;
  int fraction_bits = 0;
  bool has_infinity = true;
};

std::span<const Type> types();

enum class Reduction { sum, prod, max, min, avg, premultiplied };
inline constexpr Reduction kReductions[] = {Reduction::sum, Reduction::prod,
                                            Reduction::max, Reduction::min,
                                            Reduction::avg, Reduction::premultiplied};
const char* name(Reduction reduction);
/// The operation's number; of a pre-multiplied sum it must be made first.
ncclRedOp_t number(Reduction reduction);

/// One element: of an integer its bits, of a float its value.
struct Value {
  std::uint64_t bits = 0;
  double real = 0;
};

/// An element that rank `rank` of `ranks` gives at place `index` of a call that is to be told from
/// others by `seed`, such that `reduction` over all ranks is exact.
Value element(const Type& type, Reduction reduction, std::uint64_t seed, int rank, int ranks,
              std::size_t index);
/// The factor that a rank gives to a pre-multiplied sum.
Value factor(const Type& type, std::uint64_t seed, int rank);

/// Combines what all ranks give, in their order.
Value reduce(const Type& type, Reduction reduction, std::span<const Value> values,
             std::span<const Value> factors);

void store(const Type& type, const Value& value, unsigned char* place);
/// Whether what is at `place` is that value; of an average nearly.
bool holds(const Type& type, const Value& value, bool nearly, const unsigned char* place);
std::string shown(const Type& type, const unsigned char* place);

/// A number that hardly depends on its neighbours' (splitmix64).
std::uint64_t scatter(std::uint64_t number);

}  // namespace conformance
