// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Element types, reduction operations and errors: the vocabulary that every other public
/// header speaks.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "ccoll/version.hpp"

namespace ccoll {

/// The type of one element of a buffer.
enum class DataType : std::uint8_t { uint8, int32, int64, float16, bfloat16, float32, float64 };

/// How contributions are combined.
///
/// - `sum`, `product`: integers wrap modulo 2^bits.
/// - `min`, `max`: -0 < +0; a NaN among the contributions makes the result the canonical quiet NaN.
/// - `avg`: the sum (wrapping on integers) divided once by the number of ranks, integers rounding
///   towards zero.
/// - float16 and bfloat16 are combined in float32 and rounded to nearest even once per step of the
///   algorithm (`cc-bench explain` prints how many such roundings an algorithm has); every NaN
///   result of any floating type is the canonical quiet NaN, so that all ranks agree bitwise.
enum class ReduceOp : std::uint8_t { sum, product, min, max, avg };

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

/// Bytes of one element.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::uint8:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::int32:
    case DataType::float32:
      return 4;
    case DataType::int64:
    case DataType::float64:
      return 8;
  }
  return 0;
}

/// "float32", "sum": the names used on command lines, in files and in messages.
CCOLL_API std::string_view to_string(DataType type);
CCOLL_API std::string_view to_string(ReduceOp op);

namespace detail {
template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<std::uint8_t> : std::integral_constant<DataType, DataType::uint8> {};
template <>
struct DataTypeOf<std::int32_t> : std::integral_constant<DataType, DataType::int32> {};
template <>
struct DataTypeOf<std::int64_t> : std::integral_constant<DataType, DataType::int64> {};
template <>
struct DataTypeOf<float16> : std::integral_constant<DataType, DataType::float16> {};
template <>
struct DataTypeOf<bfloat16> : std::integral_constant<DataType, DataType::bfloat16> {};
template <>
struct DataTypeOf<float> : std::integral_constant<DataType, DataType::float32> {};
template <>
struct DataTypeOf<double> : std::integral_constant<DataType, DataType::float64> {};
}  // namespace detail

/// The DataType of a C++ element type: `data_type_of<float> == DataType::float32`.
template <typename T>
inline constexpr DataType data_type_of = detail::DataTypeOf<T>::value;

/// A C++ type that buffers may be made of.
template <typename T>
concept Element = requires { detail::DataTypeOf<T>::value; };

/// Errors by what the caller can do about them.
enum class ErrorKind : std::uint8_t {
  invalid_argument,  ///< correct the call; nothing was sent
  unsupported,       ///< this build, machine or algorithm cannot; choose another
  timed_out,         ///< a deadline passed; the message says who is missing
  peer_lost,         ///< a rank died or left
  mismatch,          ///< ranks made different calls; the message names both sides
  aborted,           ///< ended on request
  exhausted,         ///< memory, descriptors or another resource ran out
  corrupt,           ///< bytes that cannot be right arrived
  internal,          ///< a defect of ccoll: please report it
};

CCOLL_API std::string_view to_string(ErrorKind kind);

/// What every throwing function of ccoll throws.
class CCOLL_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace ccoll
