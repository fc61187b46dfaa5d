// SPDX-License-Identifier: Apache-2.0
#include "kernels/families.hpp"
#include "kernels/scalar.hpp"
#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/combine_half.cpp"
#include <hwy/foreach_target.h>

#include "kernels/combine-inl.h"

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

CombineFunction FindFloat16(ReduceOp op) { return find_combine_scalar<float16>(op); }
CombineFunction FindBfloat16(ReduceOp op) { return find_combine_scalar<bfloat16>(op); }

#else
namespace {

using Bits = hn::ScalableTag<std::uint32_t>;
using HalfBits = hn::Rebind<std::uint16_t, Bits>;

/// bfloat16 is the upper half of float32, so one vector of them holds two of float32, folded side
/// by side: of the even elements, after a shift, and of the odd ones, after a mask. No lane moves.
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

template <class Op>
using OnOne = Op;

/// Half a vector of float16 is folded as a whole one of float32. The NaN that Store is given is
/// canonical.
struct Float16 {
  using Stored = std::uint16_t;
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());

#if CCOLL_HAVE_F16C
  using Half = hn::Rebind<hwy::float16_t, D>;

  static HWY_INLINE V Load(const Stored* from) {
    return hn::PromoteTo(D(), hn::BitCast(Half(), hn::LoadU(HalfBits(), from)));
  }

  static HWY_INLINE void Store(V v, Stored* to) {
    hn::StoreU(hn::BitCast(HalfBits(), hn::DemoteTo(Half(), v)), HalfBits(), to);
  }
#else
  // Signed, because only signed lanes compare everywhere.
  using Word = hn::ScalableTag<std::int32_t>;

  static HWY_INLINE V Load(const Stored* from) {
    const Word d;
    const auto half = hn::PromoteTo(d, hn::LoadU(HalfBits(), from));
    const auto magnitude = hn::And(half, hn::Set(d, 0x7fff));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(half, magnitude));
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    const auto normal = hn::Add(shifted, hn::Set(d, (127 - 15) << 23));
    // Infinity and NaN have the biggest exponent in both formats.
    const auto special = hn::Or(shifted, hn::Set(d, 0x7f800000));
    // 2^-14 with the denormal's bits below it, less 2^-14, is the denormal: exact.
    const auto smallest = hn::Set(d, 113 << 23);
    const auto denormal = hn::BitCast(
        d, hn::Sub(hn::BitCast(D(), hn::Add(shifted, smallest)), hn::BitCast(D(), smallest)));
    const auto is_special = hn::Gt(magnitude, hn::Set(d, 0x7bff));
    const auto is_denormal = hn::Gt(hn::Set(d, 0x0400), magnitude);
    const auto finite = hn::IfThenElse(is_denormal, denormal, normal);
    return hn::BitCast(D(), hn::Or(hn::IfThenElse(is_special, special, finite), sign));
  }

  static HWY_INLINE void Store(V v, Stored* to) {
    const Word d;
    const auto bits = hn::BitCast(d, v);
    const auto magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
    const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
    const auto rebias = hn::Set(d, 0xfff - ((127 - 15) << 23));
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, odd), rebias));
    // The last bit of 0.5 is 2^-24, that of float16's denormals: the addition rounds to it.
    const auto half = hn::Set(d, 126 << 23);
    const auto sum = hn::Add(hn::BitCast(D(), magnitude), hn::BitCast(D(), half));
    const auto denormal = hn::Sub(hn::BitCast(d, sum), half);
    const auto is_denormal = hn::Gt(hn::Set(d, 0x38800000), magnitude);
    const auto is_infinite = hn::Gt(magnitude, hn::Set(d, 0x477fefff));
    const auto is_nan = hn::Gt(magnitude, hn::Set(d, 0x7f800000));
    auto result = hn::IfThenElse(is_denormal, denormal, normal);
    result = hn::IfThenElse(is_infinite, hn::Set(d, 0x7c00), result);
    result = hn::IfThenElse(is_nan, hn::Set(d, element::kNaNFloat16), result);
    const auto signed_result = hn::BitCast(Bits(), hn::Or(result, sign));
    hn::StoreU(hn::TruncateTo(HalfBits(), signed_result), HalfBits(), to);
  }
#endif
};

/// Minimum and maximum need no arithmetic: 16-bit floats become integers of the same order, -0
/// below +0, moved round the circle of 2^16 so that every NaN, of either sign, lies beyond the
/// infinity that would otherwise win.
template <std::uint16_t kInfinity, std::uint16_t kNaN, bool kNaNsBelow>
struct Ordered {
  using Stored = std::uint16_t;
  using D = hn::ScalableTag<std::int16_t>;
  using V = hn::Vec<D>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr std::int16_t kTurn = (kNaNsBelow ? 1 : -1) * (0x7fff - kInfinity);

  /// Orders the magnitudes of negative numbers backwards; its own inverse.
  static HWY_INLINE V Mirror(V v) {
    const V negative = hn::BroadcastSignBit(v);
    return hn::Xor(v, hn::And(negative, hn::Set(D(), 0x7fff)));
  }

  static HWY_INLINE V Load(const Stored* from) {
    const V bits = hn::BitCast(D(), hn::LoadU(hn::RebindToUnsigned<D>(), from));
    return hn::Add(Mirror(bits), hn::Set(D(), kTurn));
  }

  static HWY_INLINE void Store(V v, Stored* to) {
    const D d;
    const V bits = Mirror(hn::Sub(v, hn::Set(d, kTurn)));
    const V magnitude = hn::And(bits, hn::Set(d, 0x7fff));
    const auto is_nan = hn::Gt(magnitude, hn::Set(d, kInfinity));
    const V result = hn::IfThenElse(is_nan, hn::Set(d, kNaN), bits);
    hn::StoreU(hn::BitCast(hn::RebindToUnsigned<D>(), result), hn::RebindToUnsigned<D>(), to);
  }
};

template <typename T, class Format, template <class> class On, std::uint16_t kInfinity,
          std::uint16_t kNaN>
CombineFunction Find(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return &Combine<T, ReduceOp::sum, Format, On<Sum<CanonicalNaN>>>;
    case ReduceOp::product:
      return &Combine<T, ReduceOp::product, Format, On<Product<CanonicalNaN>>>;
    case ReduceOp::min:
      return &Combine<T, ReduceOp::min, Ordered<kInfinity, kNaN, true>, Min>;
    case ReduceOp::max:
      return &Combine<T, ReduceOp::max, Ordered<kInfinity, kNaN, false>, Max>;
    case ReduceOp::avg:
      return &CombineAverage<T, Format, On<Sum<CanonicalNaN>>, On<Sum<DivideFloats>>>;
  }
  return nullptr;
}

}  // namespace

CombineFunction FindFloat16(ReduceOp op) {
  return Find<float16, Float16, OnOne, 0x7c00, element::kNaNFloat16>(op);
}
CombineFunction FindBfloat16(ReduceOp op) {
  return Find<bfloat16, Bfloat16, OnPair, 0x7f80, element::kNaNBfloat16>(op);
}

#endif
}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ccoll {

HWY_EXPORT(FindFloat16);
HWY_EXPORT(FindBfloat16);

CombineFunction find_combine_float16(ReduceOp op) { return HWY_DYNAMIC_DISPATCH(FindFloat16)(op); }
CombineFunction find_combine_bfloat16(ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(FindBfloat16)(op);
}

}  // namespace ccoll
#endif
