// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls by which a communicator serves other calls: its ranks tell each other what they need to
/// know first. Collective; each takes the owner flag.

#include <cstddef>
#include <cstdint>
#include <string>

#include "ccoll/communicator.hpp"
#include "core/result.hpp"
#include "schedule/problem.hpp"

namespace ccoll {

/// output: `bytes` from every rank's `input`, by rank. For calls that cannot wait for a group's
/// end; `shown_as` is the kind in the signature, and `shown_root` its root.
Status exchange(Communicator::Implementation& communicator, std::uint8_t shown_as,
                const void* input, void* output, std::size_t bytes, const CallOptions& options = {},
                Rank shown_root = 0);

/// Fails with a mismatch that names both sides unless all ranks gave the same `text`.
Status agree(Communicator::Implementation& communicator, std::uint8_t shown_as,
             const std::string& text);

}  // namespace ccoll
