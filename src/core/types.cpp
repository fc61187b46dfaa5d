// SPDX-License-Identifier: Apache-2.0
// The types of elements, and how they are reduced.
#include "ccoll/types.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "ccoll/reduction.hpp"
#include "core/element.hpp"
#include "core/float_state.hpp"

namespace ccoll {

std::string_view to_string(DataType type) {
  switch (type) {
    case DataType::int8:
      return "int8";
    case DataType::uint8:
      return "uint8";
    case DataType::int16:
      return "int16";
    case DataType::uint16:
      return "uint16";
    case DataType::int32:
      return "int32";
    case DataType::uint32:
      return "uint32";
    case DataType::int64:
      return "int64";
    case DataType::uint64:
      return "uint64";
    case DataType::float16:
      return "float16";
    case DataType::bfloat16:
      return "bfloat16";
    case DataType::float32:
      return "float32";
    case DataType::float64:
      return "float64";
    case DataType::float8_e4m3:
      return "float8_e4m3";
    case DataType::float8_e5m2:
      return "float8_e5m2";
    case DataType::boolean:
      return "bool";
  }
  return "unknown";
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::product:
      return "product";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::bit_and:
      return "bit_and";
    case ReduceOp::bit_or:
      return "bit_or";
    case ReduceOp::bit_xor:
      return "bit_xor";
  }
  return "unknown";
}

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::timed_out:
      return "timed_out";
    case ErrorKind::peer_lost:
      return "peer_lost";
    case ErrorKind::mismatch:
      return "mismatch";
    case ErrorKind::aborted:
      return "aborted";
    case ErrorKind::exhausted:
      return "exhausted";
    case ErrorKind::corrupt:
      return "corrupt";
    case ErrorKind::internal:
      return "internal";
  }
  return "unknown";
}

Reduction Reduction::premultiplied_sum(double factor) {
  Reduction reduction;
  reduction.form_ = Form::premultiplied_sum;
  reduction.factor_ = factor;
  reduction.has_whole_factor_ = std::trunc(factor) == factor && std::abs(factor) < 0x1p63;
  if (reduction.has_whole_factor_)
    reduction.whole_factor_ = static_cast<std::uint64_t>(static_cast<std::int64_t>(factor));
  return reduction;
}

static void check_factor(const void* place, DataType type) {
  if (place == nullptr)
    throw Error(ErrorKind::invalid_argument, "premultiplied_sum: the factor is a null pointer");
  if (size_of(type) == 0)
    throw Error(ErrorKind::invalid_argument,
                fmt::format("premultiplied_sum: {} is not a DataType", static_cast<int>(type)));
}

Reduction Reduction::premultiplied_sum_at(const void* place, DataType type) {
  check_factor(place, type);
  Reduction reduction;
  reduction.form_ = Form::premultiplied_sum;
  reduction.factor_place_ = place;
  reduction.factor_type_ = type;
  return reduction;
}

Reduction Reduction::premultiplied_sum(const void* factor, DataType type) {
  check_factor(factor, type);
  const DefaultFloatState state;  // a subnormal factor must not become zero
  return element::with_type(type, [&]<typename T>(T value) {
    std::memcpy(static_cast<void*>(&value), factor, sizeof value);
    const auto wide = element::widen(value);
    Reduction reduction = premultiplied_sum(static_cast<double>(wide));
    if constexpr (std::is_integral_v<decltype(wide)>) {
      // Integers beyond 2^53 are not exact as float64.
      reduction.has_whole_factor_ = true;
      reduction.whole_factor_ = static_cast<std::uint64_t>(wide);
    }
    return reduction;
  });
}

Reduction Reduction::custom(CombineElements function, CustomReduction description) {
  if (!function) throw Error(ErrorKind::invalid_argument, "a custom reduction needs a function");
  if (description.name.empty())
    throw Error(ErrorKind::invalid_argument,
                "a custom reduction needs a name: ranks compare names to find out whether they use "
                "the same one");
  Reduction reduction;
  reduction.form_ = Form::custom;
  reduction.custom_ =
      std::make_shared<const Custom>(Custom{std::move(function), std::move(description)});
  return reduction;
}

std::string Reduction::text() const {
  switch (form_) {
    case Form::plain:
      return std::string(to_string(op_));
    case Form::premultiplied_sum:
      if (factor_place_ != nullptr) return "premultiplied_sum by a factor in memory";
      return fmt::format("premultiplied_sum by {}", factor_);
    case Form::custom:
      return fmt::format("reduction '{}'", custom_->description.name);
  }
  return {};
}

}  // namespace ccoll
