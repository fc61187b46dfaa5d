// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Copying and reducing on the CPU: one pass over any number of sources, SIMD chosen at run time.
/// Knows element types and operations; knows nothing of ranks, links or schedules.

#include <cstddef>
#include <cstdint>

#include "ccoll/types.hpp"
#include "core/element.hpp"

namespace ccoll {

/// out[i] = finish(sources[0][i] op sources[1][i] op …), folded from the left in the given order.
///
/// - `source_count` >= 1; with one source it is a copy (then finished).
/// - Floats of 16 and 8 bits are folded in float32 and rounded once, after the division.
/// - `divisor` is the number of ranks when this step completes an `avg`, else 1. Only `avg`
/// divides.
/// - `out` may be exactly one of the sources; any other overlap is a defect of the caller.
/// - Any alignment and any `elems`, 0 included. Never allocates, never fails.
/// - The result does not depend on the thread's floating-point state, which stays unchanged.
using CombineFunction = void (*)(const std::byte* const* sources, std::size_t source_count,
                                 std::byte* out, std::size_t elems, std::uint32_t divisor);

/// The kernel for a type and operation on this machine's best SIMD target; null where `op` is not
/// defined on `type`. Look it up once, when a program is made ready.
CombineFunction find_combine(DataType type, ReduceOp op);

/// out[i] = in[i] times the factor, as element::scale has it. `out` may be `in`; any other overlap
/// is a defect of the caller. Any alignment and any `elems`. Never allocates, never fails. The
/// thread's floating-point state is as for a CombineFunction.
using ScaleFunction = void (*)(const std::byte* in, std::byte* out, std::size_t elems,
                               const element::Factor& factor);

/// The same for scaling; null for bool.
ScaleFunction find_scale(DataType type);

/// The names of the SIMD targets this build has and this machine can run, best first.
const char* simd_target();

}  // namespace ccoll
