// SPDX-License-Identifier: Apache-2.0
#include "kernels/families.hpp"
#include "kernels/scalar.hpp"
#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/combine_float.cpp"
#include <hwy/foreach_target.h>

#include "kernels/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ccoll::HWY_NAMESPACE {
#if CCOLL_SCALAR_TARGET

CombineFunction FindFloat32(ReduceOp op) { return find_combine_scalar<float>(op); }
CombineFunction FindFloat64(ReduceOp op) { return find_combine_scalar<double>(op); }

#else
namespace {

/// Targets differ in what the minimum of NaN and of zeros of two signs is, so neither is left to
/// them: equal numbers are equal bits or zeros, whose signs are or-ed; NaNs stay in the fold.
struct FloatMin : CanonicalNaN {
  template <class D, class V>
  static HWY_INLINE V Fold(D /*d*/, V a, V b) {
    const V least = hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), hn::Min(a, b));
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, least));
  }
};

struct FloatMax : CanonicalNaN {
  template <class D, class V>
  static HWY_INLINE V Fold(D /*d*/, V a, V b) {
    const V most = hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), hn::Max(a, b));
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, most));
  }
};

template <typename T>
CombineFunction Find(ReduceOp op) {
  using Format = Plain<T>;
  switch (op) {
    case ReduceOp::sum:
      return &Combine<T, ReduceOp::sum, Format, Sum<CanonicalNaN>>;
    case ReduceOp::product:
      return &Combine<T, ReduceOp::product, Format, Product<CanonicalNaN>>;
    case ReduceOp::min:
      return &Combine<T, ReduceOp::min, Format, FloatMin>;
    case ReduceOp::max:
      return &Combine<T, ReduceOp::max, Format, FloatMax>;
    case ReduceOp::avg:
      return &CombineAverage<T, Format, Sum<CanonicalNaN>, Sum<DivideFloats>>;
  }
  return nullptr;
}

}  // namespace

CombineFunction FindFloat32(ReduceOp op) { return Find<float>(op); }
CombineFunction FindFloat64(ReduceOp op) { return Find<double>(op); }

#endif
}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ccoll {

HWY_EXPORT(FindFloat32);
HWY_EXPORT(FindFloat64);

CombineFunction find_combine_float32(ReduceOp op) { return HWY_DYNAMIC_DISPATCH(FindFloat32)(op); }
CombineFunction find_combine_float64(ReduceOp op) { return HWY_DYNAMIC_DISPATCH(FindFloat64)(op); }

}  // namespace ccoll
#endif
