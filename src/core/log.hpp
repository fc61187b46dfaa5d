// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where ccoll's remarks go: standard error, or a file as well; never the program's own output.
/// What is failed with is thrown or returned, not logged; `warn` is for what goes on regardless.
/// `info` tells once who and where this is and what was chosen, `debug` what happens at start-up,
/// failures and ends, `trace` every call.

#include <spdlog/logger.h>

#include <string>
#include <string_view>

#include "core/result.hpp"

namespace ccoll {

/// The process's logger, made at the first call as CCOLL_LOG and CCOLL_LOG_FILE say. Values that
/// cannot be carried out are warned of, and standard error and `warn` taken instead. Thread-safe.
spdlog::logger& log();

/// "warn", "info", "debug", "trace", in capitals too.
Result<spdlog::level::level_enum> parse_log_level(std::string_view text);

/// `pattern` with `host` for %h, `pid` for %p and % for %%.
std::string log_file_name(std::string_view pattern, std::string_view host, int pid);

/// This host's name, as the kernel has it; "?" where it does not say.
std::string host_name();

}  // namespace ccoll
