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

struct CopyCostsFile {
  std::string path;
  std::string origin;  ///< of which boot of the host, and for how many cores, its costs hold
};
/// `ccoll/HOST.copies` in the cache directory, for this boot and a process that may use `cores`.
/// Nothing where there is no such directory, and if CCOLL_TUNE_FILE names a file: that of a program
/// that brings its own costs, or /dev/null for none.
std::optional<CopyCostsFile> copy_costs_file(unsigned cores);

/// The file's text.
std::string kept_text(std::string_view origin, const std::optional<CopyCosts>& costs);
/// The costs in such a text. Nothing if it says that they could not be measured, which is tried
/// again an hour later. Fails if it is of another origin, or malformed.
Result<std::optional<CopyCosts>> parse_kept(std::string_view text, std::string_view origin);

/// The costs of that origin in the file; nothing if there are none.
std::optional<CopyCosts> kept_copy_costs(const CopyCostsFile& file);

/// Makes the costs that are kept known to this process (know_copy_costs), if there are any and none
/// are known.
void learn_copy_costs(const CopyCostsFile& file);

/// Measures the costs if the file has none of that origin, which takes at most kCalibrationLimit,
/// unless another process is measuring them.
void measure_and_keep_copy_costs(const CopyCostsFile& file);

}  // namespace ccoll
