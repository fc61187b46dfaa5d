// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The kernels by family of types, each family a translation unit so that they compile in parallel.

#include "kernels/combine.hpp"

namespace ccoll {

CombineFunction find_combine_uint8(ReduceOp op);
CombineFunction find_combine_int32(ReduceOp op);
CombineFunction find_combine_int64(ReduceOp op);
CombineFunction find_combine_float16(ReduceOp op);
CombineFunction find_combine_bfloat16(ReduceOp op);
CombineFunction find_combine_float32(ReduceOp op);
CombineFunction find_combine_float64(ReduceOp op);

}  // namespace ccoll
