// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Keeps what copies between processes cost on this host (CopyCosts) from one job to the next, in
/// the user's cache directory. Nothing depends on it: without it, calls begin with fixed rules.

#include <optional>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "transport/copy_costs.hpp"

namespace ccoll {

/// `ccoll/HOST.copies` in the cache directory; empty where there is none, and if CCOLL_TUNE_FILE
/// names a file: that of a program that brings its own costs, or /dev/null for none.
std::string copy_costs_path();

/// This boot of this host, and the cores that this process may use: costs hold for these.
Result<std::string> costs_origin();

/// The file's text.
std::string kept_text(std::string_view origin, const std::optional<CopyCosts>& costs);
/// The costs in such a text. Nothing if it says that they could not be measured, which is tried
/// again an hour later. Fails if it is of another origin, or malformed.
Result<std::optional<CopyCosts>> parse_kept(std::string_view text, std::string_view origin);

/// The costs kept at `path` for this boot; nothing if there are none.
std::optional<CopyCosts> kept_copy_costs(const std::string& path);

/// Makes the costs that are kept at `path` known to this process (know_copy_costs), if there are
/// any and none are known.
void learn_copy_costs(const std::string& path);

/// Measures the costs if `path` has none of this boot, which takes at most kCalibrationLimit,
/// unless another process is measuring them. Does nothing if the path is empty.
void measure_and_keep_copy_costs(const std::string& path);

}  // namespace ccoll
