// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Elements of NCCL's types and their arithmetic, written for these tests: nothing is shared with
/// the judged library. Inputs make every order of summing exact, so each element has one correct
/// value; averages may be off by 2 units in the last place.

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
/// The operation's number; a pre-multiplied sum must be created first.
ncclRedOp_t number(Reduction reduction);

/// One element: an integer's bits, or a float's value.
struct Value {
  std::uint64_t bits = 0;
  double real = 0;
};

/// The element at `index` that rank `rank` of `ranks` contributes to a call identified by `seed`;
/// `reduction` over all ranks is exact.
Value element(const Type& type, Reduction reduction, std::uint64_t seed, int rank, int ranks,
              std::size_t index);
/// A rank's factor for a pre-multiplied sum.
Value factor(const Type& type, std::uint64_t seed, int rank);

/// Combines all ranks' contributions in rank order.
Value reduce(const Type& type, Reduction reduction, std::span<const Value> values,
             std::span<const Value> factors);

void store(const Type& type, const Value& value, unsigned char* place);
/// Whether `place` holds that value; `nearly` for averages.
bool holds(const Type& type, const Value& value, bool nearly, const unsigned char* place);
std::string shown(const Type& type, const unsigned char* place);

/// A number with little correlation to its neighbours' (splitmix64).
std::uint64_t scatter(std::uint64_t number);

}  // namespace conformance
