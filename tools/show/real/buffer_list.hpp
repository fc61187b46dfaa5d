// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Several buffers for one call, as `--buffers` gives their elements.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/measure/operations.hpp"
#include "core/result.hpp"

namespace ccoll::show {

/// The count that a call on each buffer alone would be given.
using BufferCounts = std::vector<std::uint64_t>;

/// "2,3,1". Fails where there is a word that is no number, or where the operation takes no lists.
Result<BufferCounts> buffer_counts_of(const bench::Operation& operation, const std::string& text);

/// The call, with a rank's buffers one after another in `arguments`' input and output.
void call_on_buffers(const bench::Operation& operation, Communicator& communicator,
                     const bench::Arguments& arguments, const BufferCounts& counts);

}  // namespace ccoll::show
