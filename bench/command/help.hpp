// SPDX-License-Identifier: Apache-2.0
#pragma once

/// cc-bench's help, apart from the list of its options.

#include <string>
#include <string_view>

namespace ccoll::bench {

/// For a user who gave no argument: the operations and a first command.
std::string overview();

/// The text below the options: the columns, the exit status, nccl-tests' letters.
std::string help_footer();

/// The replacement for nccl-tests' option "-g" or "-g8"; empty if it has no such letter or ours
/// means the same.
std::string_view instead_of_nccl_option(std::string_view option);

}  // namespace ccoll::bench
