// SPDX-License-Identifier: Apache-2.0

/// The n-way loop and its parts, compiled once per SIMD target: the only include guard is Highway's
/// toggling one. A kernel is Combine<Format, Op>: Format says how vectors come from memory and go
/// back, Op how two of them fold and how a fold is finished.

#if defined(CCOLL_KERNELS_COMBINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CCOLL_KERNELS_COMBINE_INL_H_
#undef CCOLL_KERNELS_COMBINE_INL_H_
#else
#define CCOLL_KERNELS_COMBINE_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/element.hpp"
#include "core/float_state.hpp"
#include "hwy/highway.h"
#include "kernels/scalar.hpp"

/// Whether the target is the one without SIMD, which Highway would emulate lane by lane (and on
/// some compilers with vectors of a single lane): scalar.hpp serves it.
#undef CCOLL_SCALAR_TARGET
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define CCOLL_SCALAR_TARGET 1
#else
#define CCOLL_SCALAR_TARGET 0
#endif

#if !CCOLL_SCALAR_TARGET
HWY_BEFORE_NAMESPACE();
namespace ccoll::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Lanes in memory are lanes in registers.
template <typename T>
struct Plain {
  using Stored = T;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static HWY_INLINE V Load(const Stored* from) { return hn::LoadU(D(), from); }
  static HWY_INLINE void Store(V v, Stored* to) { hn::StoreU(v, D(), to); }
  static HWY_INLINE V Set(const element::Factor& factor) {
    return hn::Set(D(), element::factor_for<T>(factor));
  }
};

/// A fold that needs nothing at its end.
struct Unfinished {
  template <class D, class V>
  static HWY_INLINE V Finish(D /*d*/, V v, std::uint32_t /*divisor*/) {
    return v;
  }
};

/// The end of a floating-point fold: x86 keeps the payload of one operand's NaN, others do not.
struct CanonicalNaN {
  template <class D, class V>
  static HWY_INLINE V Finish(D d, V v, std::uint32_t /*divisor*/) {
    using T = hn::TFromD<D>;
    if constexpr (sizeof(T) == 4) {
      const auto nan = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), element::kNaNFloat32));
      return hn::IfThenElse(hn::IsNaN(v), nan, v);
    } else {
      const auto nan = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), element::kNaNFloat64));
      return hn::IfThenElse(hn::IsNaN(v), nan, v);
    }
  }
};

/// The end of an `avg` of floats.
struct DivideFloats {
  template <class D, class V>
  static HWY_INLINE V Finish(D d, V v, std::uint32_t divisor) {
    const V quotient = hn::Div(v, hn::Set(d, static_cast<hn::TFromD<D>>(divisor)));
    return CanonicalNaN::Finish(d, quotient, divisor);
  }
};

template <class End>
struct Sum : End {
  template <class D, class V>
  static HWY_INLINE V Fold(D /*d*/, V a, V b) {
    return hn::Add(a, b);
  }
};

template <class End>
struct Product : End {
  template <class D, class V>
  static HWY_INLINE V Fold(D /*d*/, V a, V b) {
    return hn::Mul(a, b);
  }
};

struct Min : Unfinished {
  template <class D, class V>
  static HWY_INLINE V Fold(D /*d*/, V a, V b) {
    return hn::Min(a, b);
  }
};

struct Max : Unfinished {
  template <class D, class V>
  static HWY_INLINE V Fold(D /*d*/, V a, V b) {
    return hn::Max(a, b);
  }
};

template <class Format>
HWY_INLINE const typename Format::Stored* StoredAt(const std::byte* source, std::size_t elem) {
  return reinterpret_cast<const typename Format::Stored*>(source) + elem;
}

/// One vector of every source, folded but not finished.
template <class Format, class Op>
HWY_INLINE typename Format::V FoldOne(const std::byte* const* sources, std::size_t count,
                                      std::size_t elem) {
  const typename Format::D d;
  auto sum = Format::Load(StoredAt<Format>(sources[0], elem));
  for (std::size_t s = 1; s < count; ++s) {
    sum = Op::Fold(d, sum, Format::Load(StoredAt<Format>(sources[s], elem)));
  }
  return sum;
}

/// Four vectors of every source: partial results stay in registers, whatever `count` is, and each
/// source is read in runs that the prefetcher follows.
template <class Format, class Op>
HWY_INLINE void CombineBlock(const std::byte* const* sources, std::size_t count, std::size_t elem,
                             typename Format::Stored* out, std::uint32_t divisor) {
  const typename Format::D d;
  constexpr std::size_t lanes = Format::kLanes;
  const auto* first = StoredAt<Format>(sources[0], elem);
  auto v0 = Format::Load(first);
  auto v1 = Format::Load(first + lanes);
  auto v2 = Format::Load(first + 2 * lanes);
  auto v3 = Format::Load(first + 3 * lanes);
  for (std::size_t s = 1; s < count; ++s) {
    const auto* next = StoredAt<Format>(sources[s], elem);
    v0 = Op::Fold(d, v0, Format::Load(next));
    v1 = Op::Fold(d, v1, Format::Load(next + lanes));
    v2 = Op::Fold(d, v2, Format::Load(next + 2 * lanes));
    v3 = Op::Fold(d, v3, Format::Load(next + 3 * lanes));
  }
  Format::Store(Op::Finish(d, v0, divisor), out + elem);
  Format::Store(Op::Finish(d, v1, divisor), out + elem + lanes);
  Format::Store(Op::Finish(d, v2, divisor), out + elem + 2 * lanes);
  Format::Store(Op::Finish(d, v3, divisor), out + elem + 3 * lanes);
}

/// For fewer elements than a vector has lanes.
template <class Format, class Op>
HWY_NOINLINE void CombineFew(const std::byte* const* sources, std::size_t count, std::byte* out,
                             std::size_t elems, std::uint32_t divisor) {
  using Stored = typename Format::Stored;
  const typename Format::D d;
  const std::size_t bytes = elems * sizeof(Stored);
  HWY_ALIGN Stored padded[Format::kLanes] = {};
  std::memcpy(padded, sources[0], bytes);
  auto sum = Format::Load(padded);
  for (std::size_t s = 1; s < count; ++s) {
    std::memcpy(padded, sources[s], bytes);
    sum = Op::Fold(d, sum, Format::Load(padded));
  }
  Format::Store(Op::Finish(d, sum, divisor), padded);
  std::memcpy(out, padded, bytes);
}

/// For at least one vector. The last vector may overlap the one before it, so it is read before
/// `out`, which may be a source, is written.
template <class Format, class Op>
HWY_INLINE void CombineMany(const std::byte* const* sources, std::size_t count, std::byte* out,
                            std::size_t elems, std::uint32_t divisor) {
  const typename Format::D d;
  constexpr std::size_t lanes = Format::kLanes;
  auto* stored = reinterpret_cast<typename Format::Stored*>(out);
  const auto last = FoldOne<Format, Op>(sources, count, elems - lanes);
  std::size_t elem = 0;
  for (; elem + 4 * lanes <= elems; elem += 4 * lanes) {
    CombineBlock<Format, Op>(sources, count, elem, stored, divisor);
  }
  for (; elem + lanes <= elems; elem += lanes) {
    const auto sum = FoldOne<Format, Op>(sources, count, elem);
    Format::Store(Op::Finish(d, sum, divisor), stored + elem);
  }
  if (elem < elems) Format::Store(Op::Finish(d, last, divisor), stored + elems - lanes);
}

/// So few elements are cheaper one by one than by way of a padded vector.
inline constexpr std::size_t kFewElems = 4;

/// A CombineFunction for two or more sources, or for one that a divisor finishes.
template <typename T, ReduceOp op, class Format, class Op>
HWY_NOINLINE void CombineFolded(const std::byte* const* sources, std::size_t count, std::byte* out,
                                std::size_t elems, std::uint32_t divisor) {
  if (elems <= kFewElems && elems < Format::kLanes) {
    combine_scalar<T, op>(sources, count, out, elems, divisor);
  } else if (elems < Format::kLanes) {
    CombineFew<Format, Op>(sources, count, out, elems, divisor);
  } else if (count == 2) {
    const std::byte* const pair[2] = {sources[0], sources[1]};
    CombineMany<Format, Op>(pair, 2, out, elems, divisor);
  } else {
    CombineMany<Format, Op>(sources, count, out, elems, divisor);
  }
}

/// CombineFolded, in any state of the thread's floating point.
template <typename T, ReduceOp op, class Format, class Op>
HWY_INLINE void CombineAnywhere(const std::byte* const* sources, std::size_t count, std::byte* out,
                                std::size_t elems, std::uint32_t divisor) {
  const auto fold = [&] { CombineFolded<T, op, Format, Op>(sources, count, out, elems, divisor); };
  if constexpr (depends_on_float_state<T, op>) {
    in_default_float_state(fold);
  } else {
    fold();
  }
}

/// The CombineFunction of an operation that does not divide.
template <typename T, ReduceOp op, class Format, class Op>
void Combine(const std::byte* const* sources, std::size_t count, std::byte* out, std::size_t elems,
             std::uint32_t /*divisor*/) {
  if (count == 1) {
    if (out != sources[0] && elems != 0) std::memcpy(out, sources[0], elems * sizeof(T));
    return;
  }
  CombineAnywhere<T, op, Format, Op>(sources, count, out, elems, 1);
}

/// The CombineFunction of `avg`: a sum until the step that divides.
template <typename T, class Format, class Undivided, class Divided>
void CombineAverage(const std::byte* const* sources, std::size_t count, std::byte* out,
                    std::size_t elems, std::uint32_t divisor) {
  if (divisor == 1) {
    Combine<T, ReduceOp::sum, Format, Undivided>(sources, count, out, elems, 1);
  } else {
    CombineAnywhere<T, ReduceOp::avg, Format, Divided>(sources, count, out, elems, divisor);
  }
}

/// Op is the product of the type.
template <class Format, class Op>
HWY_NOINLINE void ScaleAll(const std::byte* in, std::byte* out, std::size_t elems,
                           const element::Factor& factor) {
  using Stored = typename Format::Stored;
  const typename Format::D d;
  constexpr std::size_t lanes = Format::kLanes;
  const auto by = Format::Set(factor);
  std::size_t elem = 0;
  for (; elem + lanes <= elems; elem += lanes) {
    const auto scaled = Op::Fold(d, Format::Load(StoredAt<Format>(in, elem)), by);
    Format::Store(Op::Finish(d, scaled, 1), reinterpret_cast<Stored*>(out) + elem);
  }
  if (elem == elems) return;
  HWY_ALIGN Stored padded[Format::kLanes] = {};
  const std::size_t bytes = (elems - elem) * sizeof(Stored);
  std::memcpy(padded, StoredAt<Format>(in, elem), bytes);
  const auto scaled = Op::Fold(d, Format::Load(padded), by);
  Format::Store(Op::Finish(d, scaled, 1), padded);
  std::memcpy(reinterpret_cast<Stored*>(out) + elem, padded, bytes);
}

/// A ScaleFunction, in any state of the thread's floating point.
template <class Format, class Op>
void Scale(const std::byte* in, std::byte* out, std::size_t elems, const element::Factor& factor) {
  in_default_float_state([&] { ScaleAll<Format, Op>(in, out, elems, factor); });
}

}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // !CCOLL_SCALAR_TARGET

#endif  // include guard
