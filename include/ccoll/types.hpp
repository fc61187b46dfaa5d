// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Element types, reduction operations and errors: the vocabulary that every other public
/// header speaks.

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "ccoll/version.hpp"

namespace ccoll {

/// The type of one element of a buffer.
enum class DataType : std::uint8_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  float8_e4m3,  ///< OCP's E4M3: no infinities; torch's float8_e4m3fn, NCCL's ncclFloat8e4m3
  float8_e5m2,  ///< OCP's E5M2: the upper half of a float16
  boolean,      ///< "bool": one byte, and any value but 0 counts as true
};

/// Every DataType.
inline constexpr std::array kDataTypes = {
    DataType::int8,        DataType::uint8,       DataType::int16,   DataType::uint16,
    DataType::int32,       DataType::uint32,      DataType::int64,   DataType::uint64,
    DataType::float16,     DataType::bfloat16,    DataType::float32, DataType::float64,
    DataType::float8_e4m3, DataType::float8_e5m2, DataType::boolean,
};

/// How contributions are combined. A combination that is not defined (see is_defined) is refused
/// before anything is sent.
///
/// - Integers: `sum` and `product` wrap modulo 2^bits; `avg` is the wrapped sum, divided once by
///   the number of ranks, rounding towards zero; `bit_and`, `bit_or`, `bit_xor` work on each bit.
/// - Floats of 16 and 8 bits are combined in float32 and rounded once per step of the algorithm, to
///   nearest, ties to even. (`cc-bench explain` prints the number of these steps.) `avg` divides
///   first; for float16 and float8 it rounds once in all. A result that is too big becomes
///   infinite; in float8_e4m3, which has no infinity, it becomes NaN, as in torch's conversions.
///   Like infinity it stays to the end, so an overflow never passes for a number, as it would
///   if it saturated at 448.
/// - Every NaN that comes out of combining is the type's canonical one, so that all ranks agree bit
///   by bit. A NaN among the contributions makes it also the result of `min` and `max`, for which
///   -0 < +0.
/// - bool: `sum`, `max` and `bit_or` are or; `product`, `min` and `bit_and` are and; `bit_xor` is
///   whether an odd number of contributions is true. A combined result is 0 or 1. No `avg`.
enum class ReduceOp : std::uint8_t { sum, product, min, max, avg, bit_and, bit_or, bit_xor };

/// Every ReduceOp.
inline constexpr std::array kReduceOps = {ReduceOp::sum,    ReduceOp::product, ReduceOp::min,
                                          ReduceOp::max,    ReduceOp::avg,     ReduceOp::bit_and,
                                          ReduceOp::bit_or, ReduceOp::bit_xor};

/// IEEE 754 binary16, as storage. Arithmetic is the library's business.
struct float16 {
  std::uint16_t bits = 0;
  friend bool operator==(float16, float16) = default;
};

/// The upper half of an IEEE 754 binary32, as storage.
struct bfloat16 {
  std::uint16_t bits = 0;
  friend bool operator==(bfloat16, bfloat16) = default;
};

/// 4 bits of exponent, biased by 7, and 3 of mantissa, as storage: numbers up to 448, and the one
/// magnitude 0x7f is NaN.
struct float8_e4m3 {
  std::uint8_t bits = 0;
  friend bool operator==(float8_e4m3, float8_e4m3) = default;
};

/// 5 bits of exponent, biased by 15, and 2 of mantissa, as storage: numbers up to 57,344,
/// infinities and NaNs.
struct float8_e5m2 {
  std::uint8_t bits = 0;
  friend bool operator==(float8_e5m2, float8_e5m2) = default;
};

/// Bytes of one element.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
    case DataType::float8_e4m3:
    case DataType::float8_e5m2:
    case DataType::boolean:
      return 1;
    case DataType::int16:
    case DataType::uint16:
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::int32:
    case DataType::uint32:
    case DataType::float32:
      return 4;
    case DataType::int64:
    case DataType::uint64:
    case DataType::float64:
      return 8;
  }
  return 0;
}

/// int8 to uint64; not bool.
constexpr bool is_integer(DataType type) { return type <= DataType::uint64; }

/// Whether elements of `type` can be combined by `op`: bits of integers and bools only, and no
/// average of bools.
constexpr bool is_defined(ReduceOp op, DataType type) {
  const bool on_bits = op >= ReduceOp::bit_and;
  if (type == DataType::boolean) return op != ReduceOp::avg;
  return !on_bits || is_integer(type);
}

/// "float32", "bool", "sum": the names used on command lines, in files and in messages.
CCOLL_API std::string_view to_string(DataType type);
CCOLL_API std::string_view to_string(ReduceOp op);

namespace detail {
template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<std::int8_t> : std::integral_constant<DataType, DataType::int8> {};
template <>
struct DataTypeOf<std::uint8_t> : std::integral_constant<DataType, DataType::uint8> {};
template <>
struct DataTypeOf<std::int16_t> : std::integral_constant<DataType, DataType::int16> {};
template <>
struct DataTypeOf<std::uint16_t> : std::integral_constant<DataType, DataType::uint16> {};
template <>
struct DataTypeOf<std::int32_t> : std::integral_constant<DataType, DataType::int32> {};
template <>
struct DataTypeOf<std::uint32_t> : std::integral_constant<DataType, DataType::uint32> {};
template <>
struct DataTypeOf<std::int64_t> : std::integral_constant<DataType, DataType::int64> {};
template <>
struct DataTypeOf<std::uint64_t> : std::integral_constant<DataType, DataType::uint64> {};
// long and long long are two types of 64 bits, and std::int64_t is one of them.
static_assert(sizeof(long) == 8 && sizeof(long long) == 8);
template <>
struct DataTypeOf<std::conditional_t<std::is_same_v<std::int64_t, long>, long long, long>>
    : DataTypeOf<std::int64_t> {};
template <>
struct DataTypeOf<std::conditional_t<std::is_same_v<std::uint64_t, unsigned long>,
                                     unsigned long long, unsigned long>>
    : DataTypeOf<std::uint64_t> {};
template <>
struct DataTypeOf<float16> : std::integral_constant<DataType, DataType::float16> {};
template <>
struct DataTypeOf<bfloat16> : std::integral_constant<DataType, DataType::bfloat16> {};
template <>
struct DataTypeOf<float> : std::integral_constant<DataType, DataType::float32> {};
template <>
struct DataTypeOf<double> : std::integral_constant<DataType, DataType::float64> {};
template <>
struct DataTypeOf<float8_e4m3> : std::integral_constant<DataType, DataType::float8_e4m3> {};
template <>
struct DataTypeOf<float8_e5m2> : std::integral_constant<DataType, DataType::float8_e5m2> {};
template <>
struct DataTypeOf<bool> : std::integral_constant<DataType, DataType::boolean> {};
}  // namespace detail

/// The DataType of a C++ element type: `data_type_of<float> == DataType::float32`.
template <typename T>
inline constexpr DataType data_type_of = detail::DataTypeOf<T>::value;

/// A C++ type that buffers may be made of: integers by their width, also as `long long`, floats,
/// and bool, but not std::vector<bool>, whose elements lie in bits.
template <typename T>
concept Element = requires {
  detail::DataTypeOf<T>::value;
};

/// Errors by what the caller can do about them. Most leave the communicator broken on every rank;
/// see Communicator for those that do not.
enum class ErrorKind : std::uint8_t {
  invalid_argument,  ///< correct the call; nothing was sent, and nothing is broken
  unsupported,       ///< this build, machine or algorithm cannot; choose another
  timed_out,         ///< a deadline passed; the message names the ranks that the call waited
                     ///< for. After Work::wait's own limit, the operation goes on
  peer_lost,         ///< a rank died or left
  mismatch,          ///< ranks made different calls, or a message does not fit its receive; the
                     ///< text names both sides
  aborted,           ///< ended on request: by close(), or by a caller's function that threw
  exhausted,         ///< memory, descriptors or another resource ran out
  corrupt,           ///< bytes that cannot be right arrived
  internal,          ///< a defect of ccoll: please report it
};

/// "timed_out": the name used in messages.
CCOLL_API std::string_view to_string(ErrorKind kind);

/// Thrown by every throwing function of ccoll. Only if memory runs out before a call has begun does
/// it throw std::bad_alloc.
class CCOLL_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, int culprit = -1)
      : std::runtime_error(message), kind_(kind), culprit_(culprit) {}
  ErrorKind kind() const noexcept { return kind_; }
  /// The rank to look at, in the communicator of the call that failed; -1 if none is known. It is
  /// the rank that was lost, left, aborted or failed. A call that timed out waited for it. In a
  /// mismatch it is one of the two ranks that the text names.
  int culprit() const noexcept { return culprit_; }

 private:
  ErrorKind kind_;
  int culprit_;
};

}  // namespace ccoll
