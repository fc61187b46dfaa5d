// SPDX-License-Identifier: Apache-2.0
#include "elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace conformance {

namespace {

using Kind = Type::Kind;

constexpr Type kTypes[] = {
    {"int8", ncclInt8, 1, Kind::signed_integer},
    {"uint8", ncclUint8, 1, Kind::unsigned_integer},
    {"int32", ncclInt32, 4, Kind::signed_integer},
    {"uint32", ncclUint32, 4, Kind::unsigned_integer},
    {"int64", ncclInt64, 8, Kind::signed_integer},
    {"uint64", ncclUint64, 8, Kind::unsigned_integer},
    {"float16", ncclFloat16, 2, Kind::floating, 5, 10},
    {"float32", ncclFloat32, 4, Kind::floating, 8, 23},
    {"float64", ncclFloat64, 8, Kind::floating, 11, 52},
    {"bfloat16", ncclBfloat16, 2, Kind::floating, 8, 7},
    {"float8e4m3", ncclFloat8e4m3, 1, Kind::floating, 4, 3, false},
    {"float8e5m2", ncclFloat8e5m2, 1, Kind::floating, 5, 2},
};

bool is_float(const Type& type) { return type.kind == Kind::floating; }

std::uint64_t mask(const Type& type) {
  return type.size == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * type.size)) - 1;
}

std::int64_t as_signed(const Type& type, std::uint64_t bits) {
  const int unused = 64 - 8 * static_cast<int>(type.size);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

/// The bits of the float nearest to a value, ties to even. Infinities do not occur.
std::uint64_t encode(const Type& type, double value) {
  if (type.size == 8) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const std::uint64_t sign =
      std::signbit(value) ? std::uint64_t{1} << (type.exponent_bits + type.fraction_bits) : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place: less than 2^(fraction bits) for subnormal numbers.
  auto units = static_cast<std::uint64_t>(
      std::nearbyint(std::ldexp(magnitude, type.fraction_bits - exponent)));
  if (units >> (type.fraction_bits + 1) != 0) {
    units >>= 1;
    ++exponent;
  }
  if (units >> type.fraction_bits == 0) return sign | units;
  return sign | ((static_cast<std::uint64_t>(exponent + bias) << type.fraction_bits) +
                 (units & ((std::uint64_t{1} << type.fraction_bits) - 1)));
}

std::uint64_t load(const Type& type, const unsigned char* place) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, place, type.size);  // little-endian, as on all machines that NCCL supports
  return bits;
}

/// The rank of a float among all of its type, in order of value.
std::int64_t order(const Type& type, std::uint64_t bits) {
  const std::uint64_t sign = std::uint64_t{1} << (8 * type.size - 1);
  return (bits & sign) != 0 ? -static_cast<std::int64_t>(bits & ~sign)
                            : static_cast<std::int64_t>(bits);
}

/// The limit up to which a type represents all whole numbers exactly.
double exact_limit(const Type& type) {
  return std::ldexp(1.0, std::min(type.fraction_bits + 1, 30));
}

Value whole(double value) { return {.bits = 0, .real = value}; }

/// Whole numbers whose sum over all ranks, in any order, stays within `limit`.
Value summand(double limit, std::uint64_t random, int rank, int ranks, std::size_t index) {
  const auto givers = std::min<std::size_t>(static_cast<std::size_t>(ranks),
                                            static_cast<std::size_t>(std::max(1.0, limit)));
  if ((static_cast<std::size_t>(rank) + index) % static_cast<std::size_t>(ranks) >= givers) {
    return whole(0);
  }
  const auto most = static_cast<std::int64_t>(std::max(1.0, limit / static_cast<double>(givers)));
  return whole(static_cast<double>(
      static_cast<std::int64_t>(random % static_cast<std::uint64_t>(2 * most + 1)) - most));
}

Value float_element(const Type& type, Reduction reduction, std::uint64_t random, int rank,
                    int ranks, std::size_t index) {
  const double limit = exact_limit(type);
  switch (reduction) {
    case Reduction::sum:
    case Reduction::avg:
      return summand(limit, random, rank, ranks, index);
    // Factors are at most 2.
    case Reduction::premultiplied:
      return summand(limit / 2, random, rank, ranks, index);
    case Reduction::max:
    case Reduction::min: {
      const auto range = static_cast<std::uint64_t>(2 * limit + 1);
      return whole((static_cast<double>(random % range) - limit) / 4);
    }
    case Reduction::prod:
      break;
  }
  const double sign = (random & 1) != 0 ? -1 : 1;
  // Only a few scale, so that the product stays in the smallest type's range.
  const bool scales =
      (static_cast<std::size_t>(rank) + index) % static_cast<std::size_t>(ranks) < 3;
  return whole(scales ? sign * ((random & 2) != 0 ? 2.0 : 0.5) : sign);
}

}  // namespace

std::span<const Type> types() { return kTypes; }

const char* name(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::prod:
      return "prod";
    case Reduction::max:
      return "max";
    case Reduction::min:
      return "min";
    case Reduction::avg:
      return "avg";
    case Reduction::premultiplied:
      return "premultiplied sum";
  }
  return "?";
}

ncclRedOp_t number(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return ncclSum;
    case Reduction::prod:
      return ncclProd;
    case Reduction::max:
      return ncclMax;
    case Reduction::min:
      return ncclMin;
    case Reduction::avg:
      return ncclAvg;
    case Reduction::premultiplied:
      break;
  }
  return ncclNumOps;
}

std::uint64_t scatter(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

Value element(const Type& type, Reduction reduction, std::uint64_t seed, int rank, int ranks,
              std::size_t index) {
  const std::uint64_t random = scatter(seed ^ (static_cast<std::uint64_t>(rank) << 40) ^ index);
  if (is_float(type)) return float_element(type, reduction, random, rank, ranks, index);
  if (reduction != Reduction::avg) return {.bits = random & mask(type), .real = 0};
  // The sum fits, so that its n-th part is defined.
  const auto most = static_cast<std::uint64_t>(120 / ranks);
  if (type.kind == Kind::unsigned_integer) return {.bits = random % (2 * most + 1), .real = 0};
  return {.bits = (random % (2 * most + 1) - most) & mask(type), .real = 0};
}

Value factor(const Type& type, std::uint64_t seed, int rank) {
  const std::uint64_t random = scatter(~seed ^ (static_cast<std::uint64_t>(rank) << 32));
  if (!is_float(type)) return {.bits = random & mask(type), .real = 0};
  constexpr double kFactors[] = {1, 2, -1, -2};
  return whole(kFactors[random % 4]);
}

Value reduce(const Type& type, Reduction reduction, std::span<const Value> values,
             std::span<const Value> factors) {
  Value result;
  for (std::size_t r = 0; r < values.size(); ++r) {
    Value next = values[r];
    if (reduction == Reduction::premultiplied) {
      next.bits *= factors[r].bits;
      next.real *= factors[r].real;
    }
    if (r == 0) {
      result = next;
      continue;
    }
    switch (reduction) {
      case Reduction::prod:
        result.bits *= next.bits;
        result.real *= next.real;
        break;
      case Reduction::max:
      case Reduction::min: {
        bool less = next.real < result.real;
        if (type.kind == Kind::signed_integer) {
          less = as_signed(type, next.bits) < as_signed(type, result.bits);
        }
        if (type.kind == Kind::unsigned_integer) less = next.bits < result.bits;
        if (less == (reduction == Reduction::min)) result = next;
        break;
      }
      default:
        result.bits += next.bits;
        result.real += next.real;
    }
  }
  result.bits &= mask(type);
  if (reduction != Reduction::avg) return result;
  const auto count = static_cast<std::int64_t>(values.size());
  result.real /= static_cast<double>(count);
  result.bits = type.kind == Kind::signed_integer
                    ? static_cast<std::uint64_t>(as_signed(type, result.bits) / count) & mask(type)
                    : result.bits / static_cast<std::uint64_t>(count);
  return result;
}

void store(const Type& type, const Value& value, unsigned char* place) {
  const std::uint64_t bits = is_float(type) ? encode(type, value.real) : value.bits;
  std::memcpy(place, &bits, type.size);
}

bool holds(const Type& type, const Value& value, bool nearly, const unsigned char* place) {
  const std::uint64_t got = load(type, place);
  if (!is_float(type)) return got == value.bits;
  const std::int64_t off = order(type, got) - order(type, encode(type, value.real));
  return std::abs(off) <= (nearly ? 2 : 0);
}

std::string shown(const Type& type, const unsigned char* place) {
  char text[40];
  std::snprintf(text, sizeof text, "0x%0*llx", static_cast<int>(2 * type.size),
                static_cast<unsigned long long>(load(type, place)));
  return text;
}

}  // namespace conformance
