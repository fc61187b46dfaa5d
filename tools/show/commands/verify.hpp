// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show verify [OP]`: the proof of algorithms in words, or with --break the verifier's report
/// on a wrong one.

#include "show/commands/command.hpp"

namespace ccoll::show {

Action add_verify(CLI::App& app);

}  // namespace ccoll::show
