// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The commands that measure nothing: what this machine and build can do, and why a call gets the
/// algorithm that it gets.

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
/// For `size` ranks over links of that kind, with what was measured beside what is predicted.
Result<std::string> explain_text(const Options& options, int size, const LinkKind& kind,
                                 const std::vector<KeptRows::One>& rows);
/// What has to be measured for that.
Options to_explain(const Options& options);

}  // namespace ccoll::bench
