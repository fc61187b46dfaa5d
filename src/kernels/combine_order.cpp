// SPDX-License-Identifier: Apache-2.0
#include "kernels/families.hpp"
#include "kernels/scalar.hpp"
#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/combine_order.cpp"
#include <hwy/foreach_target.h>

#include "kernels/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ccoll::HWY_NAMESPACE {
#if CCOLL_SCALAR_TARGET

CombineFunction FindOrder(DataType type, ReduceOp op) {
  return element::with_type(
      type, [&]<typename T>(T) -> CombineFunction { return find_combine_scalar<T>(op); });
}

#else
namespace {

template <typename T>
CombineFunction Find(ReduceOp op) {
  return op == ReduceOp::min ? &Combine<T, ReduceOp::min, Plain<T>, Min>
                             : &Combine<T, ReduceOp::max, Plain<T>, Max>;
}

}  // namespace

CombineFunction FindOrder(DataType type, ReduceOp op) {
  return element::with_type(type, [&]<typename T>(T) -> CombineFunction {
    if constexpr (std::is_integral_v<T>) {
      return Find<T>(op);
    } else {
      return nullptr;
    }
  });
}

#endif
}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ccoll {

HWY_EXPORT(FindOrder);

CombineFunction find_combine_order(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(FindOrder)(type, op);
}

}  // namespace ccoll
#endif
