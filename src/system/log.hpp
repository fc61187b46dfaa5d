// SPDX-License-Identifier: Apache-2.0
#pragma once

/// ccoll's log: it goes to standard error, or a file as well, but never to the program's own
/// output. A failure is thrown or returned, not logged; `warn` is for problems that do not stop a
/// call. `info` says once which rank and host this is and what was chosen; `debug` reports
/// start-up, failures and ends; `trace` every call.

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

/// The process's log, made at the first call from CCOLL_LOG and CCOLL_LOG_FILE. If their values
/// cannot be used, it warns, and uses `warn` and standard error instead.
Log& log();

/// Parses "warn", "info", "debug", "trace", in capitals too.
Result<LogLevel> parse_log_level(std::string_view text);

/// `pattern` with `host` for %h, `pid` for %p and % for %%.
std::string log_file_name(std::string_view pattern, std::string_view host, int pid);

/// This host's name from the kernel; "?" if there is none.
std::string host_name();

}  // namespace ccoll
