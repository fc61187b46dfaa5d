// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The kernels by family, each a translation unit so that they compile in parallel.

#include "kernels/combine.hpp"
#include "kernels/convert.hpp"

namespace ccoll {

/// Sum, product and avg of integers.
CombineFunction find_combine_integer(DataType type, ReduceOp op);
/// Min and max of integers; bits of integers, by their size; bools.
CombineFunction find_combine_order(DataType type, ReduceOp op);
CombineFunction find_combine_bits(DataType type, ReduceOp op);
CombineFunction find_combine_bool(ReduceOp op);
CombineFunction find_combine_half(DataType type, ReduceOp op);
CombineFunction find_combine_float8(DataType type, ReduceOp op);
CombineFunction find_combine_float(DataType type, ReduceOp op);

ScaleFunction find_scale_integer(DataType type);
ScaleFunction find_scale_half(DataType type);
ScaleFunction find_scale_float8(DataType type);
ScaleFunction find_scale_float(DataType type);

Conversion find_conversion_half();
Conversion find_conversion_float8(DataType type);

}  // namespace ccoll
