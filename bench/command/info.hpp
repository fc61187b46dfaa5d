// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The commands that measure nothing: the capabilities of this machine and build, and the reason
/// for a call's algorithm.

#include <string>
#include <vector>

#include "bench/command/options.hpp"
#include "bench/measure/links.hpp"
#include "bench/measure/rows.hpp"
#include "core/result.hpp"

namespace ccoll::bench {

std::string info_text();
/// For ranks of this host.
Result<std::string> explain_text(const Options& options);
/// For `size` ranks over links of that kind, with measurements beside the predictions.
Result<std::string> explain_text(const Options& options, int size, const LinkKind& kind,
                                 const std::vector<KeptRows::One>& rows);
/// The measurements that it needs.
Options to_explain(const Options& options);

}  // namespace ccoll::bench
