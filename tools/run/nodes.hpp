// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Launchers of one job on several hosts, each started by hand: they compare their settings before
/// any rank runs.

#include <string>

#include "core/result.hpp"
#include "run/launch.hpp"

namespace ccoll {

/// Compares the nodes' settings at the store that node 0 serves at `options.store`; the others wait
/// for it for `options.node_time`. Fails with `mismatch`, naming both sides, if another node has
/// other numbers of ranks or nodes, or this node's index. Returns 0, or the number of a signal that
/// the signalfd `signals` received meanwhile. Blocks.
Result<int> agree_with_nodes(const LaunchOptions& options, const std::string& token, int signals);

}  // namespace ccoll
