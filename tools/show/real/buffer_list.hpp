// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Several buffers for one call: the elements of each, from `--buffers`.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/measure/operations.hpp"
#include "core/result.hpp"

namespace ccoll::show {

/// The count argument for a call on each buffer alone.
using BufferCounts = std::vector<std::uint64_t>;

/// "2,3,1". Fails if a word is not a number, or if the operation takes no lists.
Result<BufferCounts> buffer_counts_of(const bench::Operation& operation, const std::string& text);

/// Makes the call, with a rank's buffers consecutive in `arguments`' input and output.
void call_on_buffers(const bench::Operation& operation, Communicator& communicator,
                     const bench::Arguments& arguments, const BufferCounts& counts);

}  // namespace ccoll::show
