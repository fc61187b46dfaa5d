// SPDX-License-Identifier: Apache-2.0
#include "kernels/families.hpp"
#include "kernels/scalar.hpp"
#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/combine_float8.cpp"
#include <hwy/foreach_target.h>

#include "kernels/small_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ccoll::HWY_NAMESPACE {
#if CCOLL_SCALAR_TARGET

CombineFunction FindFloat8(DataType type, ReduceOp op) {
  return type == DataType::float8_e4m3 ? find_combine_scalar<float8_e4m3>(op)
                                       : find_combine_scalar<float8_e5m2>(op);
}
ScaleFunction FindScaleFloat8(DataType type) {
  return type == DataType::float8_e4m3 ? &scale_scalar<float8_e4m3> : &scale_scalar<float8_e5m2>;
}
Conversion FindConversionFloat8(DataType type) {
  if (type == DataType::float8_e4m3)
    return {&widen_scalar<float8_e4m3>, &narrow_scalar<float8_e4m3>};
  return {&widen_scalar<float8_e5m2>, &narrow_scalar<float8_e5m2>};
}

#else

CombineFunction FindFloat8(DataType type, ReduceOp op) {
  return type == DataType::float8_e4m3 ? FindSmall<float8_e4m3, Converted<float8_e4m3>, OnOne>(op)
                                       : FindSmall<float8_e5m2, Converted<float8_e5m2>, OnOne>(op);
}
ScaleFunction FindScaleFloat8(DataType type) {
  return type == DataType::float8_e4m3 ? &Scale<Converted<float8_e4m3>, Product<CanonicalNaN>>
                                       : &Scale<Converted<float8_e5m2>, Product<CanonicalNaN>>;
}
Conversion FindConversionFloat8(DataType type) {
  if (type == DataType::float8_e4m3)
    return {&Widen<Converted<float8_e4m3>>, &Narrow<Converted<float8_e4m3>>};
  return {&Widen<Converted<float8_e5m2>>, &Narrow<Converted<float8_e5m2>>};
}

#endif
}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ccoll {

HWY_EXPORT(FindFloat8);
HWY_EXPORT(FindScaleFloat8);
HWY_EXPORT(FindConversionFloat8);

CombineFunction find_combine_float8(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(FindFloat8)(type, op);
}
ScaleFunction find_scale_float8(DataType type) {
  return HWY_DYNAMIC_DISPATCH(FindScaleFloat8)(type);
}
Conversion find_conversion_float8(DataType type) {
  return HWY_DYNAMIC_DISPATCH(FindConversionFloat8)(type);
}

}  // namespace ccoll
#endif
