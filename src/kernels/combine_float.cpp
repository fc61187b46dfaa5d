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

CombineFunction FindFloat(DataType type, ReduceOp op) {
  return type == DataType::float32 ? find_combine_scalar<float>(op)
                                   : find_combine_scalar<double>(op);
}
ScaleFunction FindScaleFloat(DataType type) {
  return type == DataType::float32 ? &scale_scalar<float> : &scale_scalar<double>;
}

#else
namespace {

/// Targets differ in the minimum of NaN and of zeros of two signs, so neither is left to them.
/// Equal numbers are equal bits or zeros, whose signs are or-ed; NaNs stay in the fold.
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
    default:
      return nullptr;
  }
}

}  // namespace

CombineFunction FindFloat(DataType type, ReduceOp op) {
  return type == DataType::float32 ? Find<float>(op) : Find<double>(op);
}
ScaleFunction FindScaleFloat(DataType type) {
  return type == DataType::float32 ? &Scale<Plain<float>, Product<CanonicalNaN>>
                                   : &Scale<Plain<double>, Product<CanonicalNaN>>;
}

#endif
}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ccoll {

HWY_EXPORT(FindFloat);
HWY_EXPORT(FindScaleFloat);

CombineFunction find_combine_float(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(FindFloat)(type, op);
}
ScaleFunction find_scale_float(DataType type) { return HWY_DYNAMIC_DISPATCH(FindScaleFloat)(type); }

}  // namespace ccoll
#endif
