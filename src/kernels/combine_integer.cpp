// SPDX-License-Identifier: Apache-2.0
#include "kernels/families.hpp"
#include "kernels/scalar.hpp"
#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/combine_integer.cpp"
#include <hwy/foreach_target.h>

#include "kernels/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ccoll::HWY_NAMESPACE {
#if CCOLL_SCALAR_TARGET

CombineFunction FindInteger(DataType type, ReduceOp op) {
  return element::with_type(
      type, [&]<typename T>(T) -> CombineFunction { return find_combine_scalar<T>(op); });
}
ScaleFunction FindScaleInteger(DataType type) {
  return element::with_type(type, []<typename T>(T) -> ScaleFunction { return &scale_scalar<T>; });
}

#else
namespace {

/// No target multiplies bytes: even and odd ones are multiplied in 16-bit lanes, whose low halves
/// hold the wrapped products.
struct ByteProduct : Unfinished {
  template <class D, class V>
  static HWY_INLINE V Fold(D d, V a, V b) {
    const hn::RepartitionToWide<D> wide;
    const auto a16 = hn::BitCast(wide, a);
    const auto b16 = hn::BitCast(wide, b);
    const auto even = hn::And(hn::Mul(a16, b16), hn::Set(wide, 0xff));
    const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16));
    return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
  }
};

/// The end of an `avg` of integers: no target divides vectors of them.
struct DivideIntegers {
  template <class D, class V>
  static HWY_INLINE V Finish(D d, V v, std::uint32_t divisor) {
    using T = hn::TFromD<D>;
    HWY_ALIGN T values[hn::MaxLanes(D())];
    hn::Store(v, d, values);
    for (T& value : values) {
      if constexpr (sizeof(T) < 8) {
        // Exact: a quotient a/b that is no integer is at least 1/b away from the next one, and
        // rounding moves it by at most a/b * 2^-53. This vectorises; integer division does not.
        value = static_cast<T>(static_cast<double>(value) / static_cast<double>(divisor));
      } else {
        value /= static_cast<T>(divisor);
      }
    }
    return hn::Load(d, values);
  }
};

template <std::size_t size>
using ProductOf = std::conditional_t<size == 1, ByteProduct, Product<Unfinished>>;

/// Signed and unsigned integers have the same sums and products: U is unsigned.
template <typename U>
CombineFunction Find(bool is_signed, ReduceOp op) {
  using S = std::make_signed_t<U>;
  if (op == ReduceOp::sum) return &Combine<U, ReduceOp::sum, Plain<U>, Sum<Unfinished>>;
  if (op == ReduceOp::product)
    return &Combine<U, ReduceOp::product, Plain<U>, ProductOf<sizeof(U)>>;
  if (op != ReduceOp::avg) return nullptr;
  return is_signed ? &CombineAverage<S, Plain<S>, Sum<Unfinished>, Sum<DivideIntegers>>
                   : &CombineAverage<U, Plain<U>, Sum<Unfinished>, Sum<DivideIntegers>>;
}

}  // namespace

CombineFunction FindInteger(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
      return Find<std::uint8_t>(type == DataType::int8, op);
    case DataType::int16:
    case DataType::uint16:
      return Find<std::uint16_t>(type == DataType::int16, op);
    case DataType::int32:
    case DataType::uint32:
      return Find<std::uint32_t>(type == DataType::int32, op);
    default:
      return Find<std::uint64_t>(type == DataType::int64, op);
  }
}

ScaleFunction FindScaleInteger(DataType type) {
  switch (size_of(type)) {
    case 1:
      return &Scale<Plain<std::uint8_t>, ByteProduct>;
    case 2:
      return &Scale<Plain<std::uint16_t>, Product<Unfinished>>;
    case 4:
      return &Scale<Plain<std::uint32_t>, Product<Unfinished>>;
    default:
      return &Scale<Plain<std::uint64_t>, Product<Unfinished>>;
  }
}

#endif
}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ccoll {

HWY_EXPORT(FindInteger);
HWY_EXPORT(FindScaleInteger);

CombineFunction find_combine_integer(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(FindInteger)(type, op);
}
ScaleFunction find_scale_integer(DataType type) {
  return HWY_DYNAMIC_DISPATCH(FindScaleInteger)(type);
}

}  // namespace ccoll
#endif
