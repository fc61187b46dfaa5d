// SPDX-License-Identifier: Apache-2.0
#include "kernels/families.hpp"
#include "kernels/scalar.hpp"
#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/combine_half.cpp"
#include <hwy/foreach_target.h>

#include "kernels/small_float-inl.h"

/// Whether the target converts float16 in hardware, to nearest even and with denormals, infinities
/// and NaNs. Highway's own emulation truncates and knows no NaN, so it is not used.
#undef CCOLL_HAVE_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define CCOLL_HAVE_F16C 1
#else
#define CCOLL_HAVE_F16C 0
#endif

HWY_BEFORE_NAMESPACE();
namespace ccoll::HWY_NAMESPACE {
#if CCOLL_SCALAR_TARGET

CombineFunction FindHalf(DataType type, ReduceOp op) {
  return type == DataType::float16 ? find_combine_scalar<float16>(op)
                                   : find_combine_scalar<bfloat16>(op);
}
ScaleFunction FindScaleHalf(DataType type) {
  return type == DataType::float16 ? &scale_scalar<float16> : &scale_scalar<bfloat16>;
}
Conversion FindConversionHalf() { return {&widen_scalar<float16>, &narrow_scalar<float16>}; }

#else
namespace {

using Bits = hn::ScalableTag<std::uint32_t>;

/// bfloat16 is the upper half of float32, so one vector of them holds two of float32. Both are
/// folded side by side: the even elements after a shift, the odd ones after a mask. No lane moves.
struct Bfloat16 {
  using Stored = std::uint16_t;
  using D = hn::ScalableTag<float>;
  struct V {
    hn::Vec<D> even;
    hn::Vec<D> odd;
  };
  static constexpr std::size_t kLanes = 2 * hn::MaxLanes(D());

  static HWY_INLINE V Load(const Stored* from) {
    const Bits d;
    const auto both = hn::BitCast(d, hn::LoadU(hn::Repartition<Stored, D>(), from));
    return {hn::BitCast(D(), hn::ShiftLeft<16>(both)),
            hn::BitCast(D(), hn::And(both, hn::Set(d, 0xffff0000)))};
  }

  static HWY_INLINE V Set(const element::Factor& factor) {
    const auto both = hn::Set(D(), element::factor_for<bfloat16>(factor));
    return {both, both};
  }

  /// NaNs are canonical, so rounding cannot carry one into infinity.
  static HWY_INLINE hn::Vec<Bits> Round(hn::Vec<D> v) {
    const Bits d;
    const auto bits = hn::BitCast(d, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    return hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff)));
  }

  static HWY_INLINE void Store(V v, Stored* to) {
    const auto odd = hn::And(Round(v.odd), hn::Set(Bits(), 0xffff0000));
    const auto both = hn::Or(hn::ShiftRight<16>(Round(v.even)), odd);
    const hn::Repartition<Stored, D> d;
    hn::StoreU(hn::BitCast(d, both), d, to);
  }
};

/// An operation on the two vectors of Bfloat16.
template <class Op>
struct OnPair {
  using V = Bfloat16::V;
  template <class D>
  static HWY_INLINE V Fold(D d, V a, V b) {
    return {Op::Fold(d, a.even, b.even), Op::Fold(d, a.odd, b.odd)};
  }
  template <class D>
  static HWY_INLINE V Finish(D d, V v, std::uint32_t divisor) {
    return {Op::Finish(d, v.even, divisor), Op::Finish(d, v.odd, divisor)};
  }
};

#if CCOLL_HAVE_F16C
/// Half a vector of float16 is folded as a whole one of float32. Store is given canonical NaNs
/// only.
struct Float16 {
  using Stored = std::uint16_t;
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  using HalfBits = hn::Rebind<Stored, D>;
  using Half = hn::Rebind<hwy::float16_t, D>;

  static HWY_INLINE V Set(const element::Factor& factor) {
    return hn::Set(D(), element::factor_for<float16>(factor));
  }

  static HWY_INLINE V Load(const Stored* from) {
    return hn::PromoteTo(D(), hn::BitCast(Half(), hn::LoadU(HalfBits(), from)));
  }

  static HWY_INLINE void Store(V v, Stored* to) {
    hn::StoreU(hn::BitCast(HalfBits(), hn::DemoteTo(Half(), v)), HalfBits(), to);
  }
};
#else
using Float16 = Converted<float16>;
#endif

}  // namespace

CombineFunction FindHalf(DataType type, ReduceOp op) {
  return type == DataType::float16 ? FindSmall<float16, Float16, OnOne>(op)
                                   : FindSmall<bfloat16, Bfloat16, OnPair>(op);
}
ScaleFunction FindScaleHalf(DataType type) {
  return type == DataType::float16 ? &Scale<Float16, Product<CanonicalNaN>>
                                   : &Scale<Bfloat16, OnPair<Product<CanonicalNaN>>>;
}
Conversion FindConversionHalf() { return {&Widen<Float16>, &Narrow<Float16>}; }

#endif
}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ccoll {

HWY_EXPORT(FindHalf);
HWY_EXPORT(FindScaleHalf);
HWY_EXPORT(FindConversionHalf);

CombineFunction find_combine_half(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(FindHalf)(type, op);
}
ScaleFunction find_scale_half(DataType type) { return HWY_DYNAMIC_DISPATCH(FindScaleHalf)(type); }
Conversion find_conversion_half() { return HWY_DYNAMIC_DISPATCH(FindConversionHalf)(); }

}  // namespace ccoll
#endif
