// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ccoll::gpu_check {

/// What memory gives who only reads: `void(const uint4* from, std::uint64_t words, uint4* out)`,
/// which writes to `out` only where every bit was set in some word.
const void* read_kernel();

}  // namespace ccoll::gpu_check
