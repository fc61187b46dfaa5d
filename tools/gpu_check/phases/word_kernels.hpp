// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ccoll::gpu_check {

/// Words under stress: `void(const test::WordHammer)`; block 0 writes and the others read.
const void* hammer_kernel();

}  // namespace ccoll::gpu_check
