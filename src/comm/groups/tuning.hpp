// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Measured costs of links, which take the place of the estimates in costs.cpp. `cc-bench tune`
/// measures them and keeps them in a file. Rank 0 reads it when a job starts, for all ranks.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "algorithms/algorithms.hpp"
#include "core/result.hpp"

namespace ccoll {

/// Names links that cost alike: by transport, by whether ranks take turns on cores, by network.
std::string link_class(std::string_view transport, bool oversubscribed, bool one_host);

/// By link_class().
using Tuning = std::map<std::string, MeasuredCosts, std::less<>>;

/// A line for each class: its name and its numbers, each behind its name.
std::string to_text(const Tuning& tuning);
/// The failure says which line is wrong, and what it should be. An empty text (/dev/null) holds
/// nothing.
Result<Tuning> parse_tuning(std::string_view text);

/// This host's file with that ending in the user's cache directory (XDG_CACHE_HOME, ~/.cache);
/// empty where there is no such directory.
std::string cache_path(std::string_view ending);
/// CCOLL_TUNE_FILE, or this host's file in the cache directory; empty where there is none of them.
std::string tuning_path();
/// The costs in that file; none if it does not exist. A file that cannot be read or understood
/// causes a warning and is not used, and so does one that CCOLL_TUNE_FILE names and that is not
/// there.
Tuning load_tuning();
/// For a process that is about to make the file: that it is not there causes no warning.
void will_save_tuning();
/// Fails if there is no path, or a device or directory at it: /dev/null keeps nothing.
Status check_tuning_path(const std::string& path);
/// Replaces the file at once or not at all; makes its directory.
Status save_tuning(const Tuning& tuning, const std::string& path);

}  // namespace ccoll
