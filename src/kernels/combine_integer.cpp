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

CombineFunction FindUint8(ReduceOp op) { return find_combine_scalar<std::uint8_t>(op); }
CombineFunction FindInt32(ReduceOp op) { return find_combine_scalar<std::int32_t>(op); }
CombineFunction FindInt64(ReduceOp op) { return find_combine_scalar<std::int64_t>(op); }

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
        // Exact: a quotient of 32-bit integers that is none itself is 2^-32 or more away from the
        // next one, and a float64 at most 2^-22. This vectorises, which integer division does not.
        value = static_cast<T>(static_cast<double>(value) / static_cast<double>(divisor));
      } else {
        value /= std::int64_t{divisor};
      }
    }
    return hn::Load(d, values);
  }
};

template <typename T, class ProductOp>
CombineFunction Find(ReduceOp op) {
  using Format = Plain<T>;
  switch (op) {
    case ReduceOp::sum:
      return &Combine<T, ReduceOp::sum, Format, Sum<Unfinished>>;
    case ReduceOp::product:
      return &Combine<T, ReduceOp::product, Format, ProductOp>;
    case ReduceOp::min:
      return &Combine<T, ReduceOp::min, Format, Min>;
    case ReduceOp::max:
      return &Combine<T, ReduceOp::max, Format, Max>;
    case ReduceOp::avg:
      return &CombineAverage<T, Format, Sum<Unfinished>, Sum<DivideIntegers>>;
  }
  return nullptr;
}

}  // namespace

CombineFunction FindUint8(ReduceOp op) { return Find<std::uint8_t, ByteProduct>(op); }
CombineFunction FindInt32(ReduceOp op) { return Find<std::int32_t, Product<Unfinished>>(op); }
CombineFunction FindInt64(ReduceOp op) { return Find<std::int64_t, Product<Unfinished>>(op); }

#endif
}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ccoll {

HWY_EXPORT(FindUint8);
HWY_EXPORT(FindInt32);
HWY_EXPORT(FindInt64);

CombineFunction find_combine_uint8(ReduceOp op) { return HWY_DYNAMIC_DISPATCH(FindUint8)(op); }
CombineFunction find_combine_int32(ReduceOp op) { return HWY_DYNAMIC_DISPATCH(FindInt32)(op); }
CombineFunction find_combine_int64(ReduceOp op) { return HWY_DYNAMIC_DISPATCH(FindInt64)(op); }

}  // namespace ccoll
#endif
