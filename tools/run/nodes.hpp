// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Launchers of one job on several hosts, each started by hand: they make sure that they were told
/// the same before any rank runs.

#include <string>

#include "core/result.hpp"
#include "run/launch.hpp"

namespace ccoll {

/// Compares what the nodes of the job were started with, at the store that node 0 serves at
/// `options.store`; the others wait for it for `options.node_time`. Fails with `mismatch`, naming
/// both sides, when another node has other numbers of ranks or nodes, or the number of this one.
/// Returns 0, or the number of a signal that came meanwhile by the signalfd `signals`. Blocks.
Result<int> agree_with_nodes(const LaunchOptions& options, const std::string& token, int signals);

}  // namespace ccoll
