// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show verify [OP]`: the proof of algorithms in words, or with --break what the verifier says
/// of one that is wrong.

#include "show/commands/command.hpp"

namespace ccoll::show {

Action add_verify(CLI::App& app);

}  // namespace ccoll::show
