// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What cc-bench says about itself, apart from the list of its options.

#include <string>
#include <string_view>

namespace ccoll::bench {

/// For somebody who typed no argument: the operations and what to type first.
std::string overview();

/// Below the options: the columns, the exit status, nccl-tests' letters.
std::string help_footer();

/// What to type here for nccl-tests' option "-g" or "-g8"; empty where it has none of that letter
/// or ours means the same.
std::string_view instead_of_nccl_option(std::string_view option);

}  // namespace ccoll::bench
