// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where ccoll's remarks go: standard error, or a file as well; never the program's own output.
/// What is failed with is thrown or returned, not logged; `warn` is for what goes on regardless.
/// `info` tells once who and where this is and what was chosen, `debug` what happens at start-up,
/// failures and ends, `trace` every call.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/result.hpp"

namespace ccoll {

enum class LogLevel { trace, debug, info, warn, error };

/// Thread-safe. spdlog does the work; its headers are slow to compile and stay in log.cpp.
class Log {
 public:
  explicit Log(LogLevel level) : level_(level) {}
  virtual ~Log() = default;

  bool tells(LogLevel level) const { return level >= level_; }
  virtual void write(LogLevel level, std::string_view line) = 0;

  template <typename... Args>
  void at(LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
    if (tells(level)) write(level, fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void trace(fmt::format_string<Args...> text, Args&&... args) {
    at(LogLevel::trace, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void debug(fmt::format_string<Args...> text, Args&&... args) {
    at(LogLevel::debug, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> text, Args&&... args) {
    at(LogLevel::info, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> text, Args&&... args) {
    at(LogLevel::warn, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void error(fmt::format_string<Args...> text, Args&&... args) {
    at(LogLevel::error, text, std::forward<Args>(args)...);
  }

 private:
  const LogLevel level_;
};

/// The process's log, made at the first call as CCOLL_LOG and CCOLL_LOG_FILE say. Values that
/// cannot be carried out are warned of, and standard error and `warn` taken instead.
Log& log();

/// "warn", "info", "debug", "trace", in capitals too.
Result<LogLevel> parse_log_level(std::string_view text);

/// `pattern` with `host` for %h, `pid` for %p and % for %%.
std::string log_file_name(std::string_view pattern, std::string_view host, int pid);

/// This host's name, as the kernel has it; "?" where it does not say.
std::string host_name();

}  // namespace ccoll
