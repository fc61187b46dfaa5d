// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The names of types and reduction operations on the command line, with nccl-tests' spellings
/// beside ours. Does not depend on measuring.

#include <string>
#include <string_view>
#include <vector>

#include "ccoll/types.hpp"
#include "core/result.hpp"
#include "core/text.hpp"

namespace ccoll::bench {

/// "float32", "half", …; `all` and comma lists give several, in the order given, each once.
Result<std::vector<DataType>> parse_types(std::string_view list);
Result<std::vector<ReduceOp>> parse_reduce_ops(std::string_view list);

/// The parts of a comma list; empty parts are left out.
std::vector<std::string> split_list(std::string_view list);

}  // namespace ccoll::bench
