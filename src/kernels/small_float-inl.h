// SPDX-License-Identifier: Apache-2.0

/// The common part of floats of 8 and 16 bits, compiled once per SIMD target: the only include
/// guard is Highway's toggling one. By core/element.hpp's Layout, a Format that folds in float32,
/// for targets without instructions of their own, and one that orders them as integers.

#if defined(CCOLL_KERNELS_SMALL_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CCOLL_KERNELS_SMALL_FLOAT_INL_H_
#undef CCOLL_KERNELS_SMALL_FLOAT_INL_H_
#else
#define CCOLL_KERNELS_SMALL_FLOAT_INL_H_
#endif

#include "kernels/combine-inl.h"

#if !CCOLL_SCALAR_TARGET
HWY_BEFORE_NAMESPACE();
namespace ccoll::HWY_NAMESPACE {

/// A part of a vector of T is folded as a whole one of float32, converted by integer arithmetic.
template <typename T>
struct Converted {
  using L = element::LayoutOf<T>;
  using Stored = decltype(T::bits);
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  // These are signed, because only signed lanes compare everywhere.
  using Word = hn::ScalableTag<std::int32_t>;
  using Small = hn::Rebind<Stored, D>;
  static constexpr int kToTop = 32 - static_cast<int>(L::kBits);
  static constexpr int kShift = static_cast<int>(L::kShift);
  static constexpr std::int32_t kRebias = L::kRebias;
  static constexpr std::int32_t kSmallestNormal = kRebias + (1 << 23);

  static HWY_INLINE V Set(const element::Factor& factor) {
    return hn::Set(D(), element::factor_for<T>(factor));
  }

  static HWY_INLINE V Load(const Stored* from) {
    const Word d;
    const auto bits = hn::PromoteTo(d, hn::LoadU(Small(), from));
    const auto magnitude = hn::And(bits, hn::Set(d, L::kSign - 1));
    const auto sign = hn::ShiftLeft<kToTop>(hn::Xor(bits, magnitude));
    const auto shifted = hn::ShiftLeft<kShift>(magnitude);
    const auto normal = hn::Add(shifted, hn::Set(d, kRebias));
    // Infinity and NaN have the biggest exponent in float32, too. (The one NaN of a type without
    // infinities has bits in its mantissa.)
    const auto special = hn::Or(shifted, hn::Set(d, 0x7f800000));
    // The smallest normal number with the denormal's bits below it, less that number: exact.
    const auto smallest = hn::Set(d, kSmallestNormal);
    const auto denormal = hn::BitCast(
        d, hn::Sub(hn::BitCast(D(), hn::Add(shifted, smallest)), hn::BitCast(D(), smallest)));
    const auto is_special = hn::Gt(magnitude, hn::Set(d, L::kMost));
    const auto is_denormal = hn::Gt(hn::Set(d, 1 << L::kMantissaBits), magnitude);
    const auto finite = hn::IfThenElse(is_denormal, denormal, normal);
    return hn::BitCast(D(), hn::Or(hn::IfThenElse(is_special, special, finite), sign));
  }

  /// Store is given canonical NaNs only.
  static HWY_INLINE void Store(V v, Stored* to) {
    const Word d;
    const auto bits = hn::BitCast(d, v);
    const auto magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
    const auto sign =
        hn::And(hn::ShiftRight<kToTop>(bits), hn::Set(d, static_cast<std::int32_t>(L::kSign)));
    const auto odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(d, 1));
    const auto half = hn::Set(d, (1 << (kShift - 1)) - 1 - kRebias);
    const auto normal = hn::ShiftRight<kShift>(hn::Add(hn::Add(magnitude, odd), half));
    // The last bit of this number is the smallest denormal: adding it rounds to that.
    const auto rounder =
        hn::Set(d, kRebias + (static_cast<std::int32_t>(L::kShift) + 1) * (1 << 23));
    const auto sum = hn::Add(hn::BitCast(D(), magnitude), hn::BitCast(D(), rounder));
    const auto denormal = hn::Sub(hn::BitCast(d, sum), rounder);
    const auto is_denormal = hn::Gt(hn::Set(d, kSmallestNormal), magnitude);
    const auto is_nan = hn::Gt(magnitude, hn::Set(d, 0x7f800000));
    auto result = hn::IfThenElse(is_denormal, denormal, normal);
    const auto is_too_big = hn::Gt(result, hn::Set(d, L::kMost));
    if constexpr (L::kHasInfinity) {
      result = hn::IfThenElse(is_too_big, hn::Set(d, L::kOverflow), result);
      result = hn::Or(hn::IfThenElse(is_nan, hn::Set(d, L::kNaN), result), sign);
    } else {
      result =
          hn::IfThenElse(hn::Or(is_too_big, is_nan), hn::Set(d, L::kNaN), hn::Or(result, sign));
    }
    hn::StoreU(hn::TruncateTo(Small(), hn::BitCast(hn::RebindToUnsigned<Word>(), result)), Small(),
               to);
  }
};

/// Minimum and maximum need no arithmetic: the floats become integers of the same order, -0 below
/// +0. These are moved round the circle of 2^bits so that every NaN, of either sign, lies beyond
/// the magnitude that would otherwise win.
template <typename T, bool kNaNsBelow>
struct Ordered {
  using L = element::LayoutOf<T>;
  using Stored = decltype(T::bits);
  using Lane = std::make_signed_t<Stored>;
  using D = hn::ScalableTag<Lane>;
  using V = hn::Vec<D>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr Lane kMagnitude = L::kSign - 1;
  static constexpr Lane kTurn =
      (kNaNsBelow ? 1 : -1) * static_cast<Lane>(kMagnitude - L::kMostOrdered);

  /// Orders the magnitudes of negative numbers backwards; its own inverse.
  static HWY_INLINE V Mirror(V v) {
    const V negative = hn::BroadcastSignBit(v);
    return hn::Xor(v, hn::And(negative, hn::Set(D(), kMagnitude)));
  }

  static HWY_INLINE V Load(const Stored* from) {
    const V bits = hn::BitCast(D(), hn::LoadU(hn::RebindToUnsigned<D>(), from));
    return hn::Add(Mirror(bits), hn::Set(D(), kTurn));
  }

  static HWY_INLINE void Store(V v, Stored* to) {
    const D d;
    const V bits = Mirror(hn::Sub(v, hn::Set(d, kTurn)));
    const V magnitude = hn::And(bits, hn::Set(d, kMagnitude));
    const auto is_nan = hn::Gt(magnitude, hn::Set(d, static_cast<Lane>(L::kMostOrdered)));
    const V result = hn::IfThenElse(is_nan, hn::Set(d, static_cast<Lane>(L::kNaN)), bits);
    hn::StoreU(hn::BitCast(hn::RebindToUnsigned<D>(), result), hn::RebindToUnsigned<D>(), to);
  }
};

template <class Format>
HWY_NOINLINE void WidenAll(const std::byte* in, float* out, std::size_t elems) {
  using Stored = typename Format::Stored;
  const typename Format::D d;
  constexpr std::size_t lanes = Format::kLanes;
  std::size_t elem = 0;
  const auto widen = [&](const Stored* from, float* to) HWY_ATTR {
    hn::StoreU(CanonicalNaN::Finish(d, Format::Load(from), 1), d, to);
  };
  for (; elem + lanes <= elems; elem += lanes) widen(StoredAt<Format>(in, elem), out + elem);
  if (elem == elems) return;
  HWY_ALIGN Stored padded[lanes] = {};
  HWY_ALIGN float widened[lanes];
  std::memcpy(padded, StoredAt<Format>(in, elem), (elems - elem) * sizeof(Stored));
  widen(padded, widened);
  std::memcpy(out + elem, widened, (elems - elem) * sizeof(float));
}

template <class Format>
HWY_NOINLINE void NarrowAll(const float* in, std::byte* out, std::size_t elems) {
  using Stored = typename Format::Stored;
  const typename Format::D d;
  constexpr std::size_t lanes = Format::kLanes;
  auto* stored = reinterpret_cast<Stored*>(out);
  std::size_t elem = 0;
  const auto narrow = [&](const float* from, Stored* to) HWY_ATTR {
    Format::Store(CanonicalNaN::Finish(d, hn::LoadU(d, from), 1), to);
  };
  for (; elem + lanes <= elems; elem += lanes) narrow(in + elem, stored + elem);
  if (elem == elems) return;
  HWY_ALIGN float padded[lanes] = {};
  HWY_ALIGN Stored narrowed[lanes];
  std::memcpy(padded, in + elem, (elems - elem) * sizeof(float));
  narrow(padded, narrowed);
  std::memcpy(stored + elem, narrowed, (elems - elem) * sizeof(Stored));
}

/// A WidenFunction and a NarrowFunction, in any state of the thread's floating point.
template <class Format>
void Widen(const std::byte* in, float* out, std::size_t elems) {
  in_default_float_state([&] { WidenAll<Format>(in, out, elems); });
}
template <class Format>
void Narrow(const float* in, std::byte* out, std::size_t elems) {
  in_default_float_state([&] { NarrowAll<Format>(in, out, elems); });
}

/// How an operation is applied to one vector of float32; a Format with several has its own.
template <class Op>
using OnOne = Op;

/// The kernels of T, whose sums and products are folded by Format.
template <typename T, class Format, template <class> class On>
CombineFunction FindSmall(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return &Combine<T, ReduceOp::sum, Format, On<Sum<CanonicalNaN>>>;
    case ReduceOp::product:
      return &Combine<T, ReduceOp::product, Format, On<Product<CanonicalNaN>>>;
    case ReduceOp::min:
      return &Combine<T, ReduceOp::min, Ordered<T, true>, Min>;
    case ReduceOp::max:
      return &Combine<T, ReduceOp::max, Ordered<T, false>, Max>;
    case ReduceOp::avg:
      return &CombineAverage<T, Format, On<Sum<CanonicalNaN>>, On<Sum<DivideFloats>>>;
    default:
      return nullptr;
  }
}

}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // !CCOLL_SCALAR_TARGET

#endif  // include guard
