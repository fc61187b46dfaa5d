// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <span>

#include "core/text.hpp"
#include "core/variables.hpp"

namespace ccoll {
namespace {

using spdlog::level::level_enum;

struct Level {
  std::string_view name;
  level_enum level;
};
constexpr std::array<Level, 4> kLevels = {{
    {"warn", level_enum::warn},
    {"info", level_enum::info},
    {"debug", level_enum::debug},
    {"trace", level_enum::trace},
}};

/// Lines of several processes may share a file: each says whose it is.
spdlog::sink_ptr open_file(const std::string& name) {
  auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(name);
  sink->set_pattern(fmt::format("%Y-%m-%d %H:%M:%S.%f {}:%P %l: %v", host_name()));
  return sink;
}

std::shared_ptr<spdlog::logger> make_logger() {
  auto errors = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  errors->set_pattern("%n: %l: %v");
  auto logger = std::make_shared<spdlog::logger>("ccoll", errors);
  logger->set_level(level_enum::warn);
  // A process that dies takes with it what its buffers hold, which is what one wants to read.
  logger->flush_on(level_enum::trace);
  if (const auto text = read_variable("CCOLL_LOG")) {
    if (const auto level = parse_log_level(*text))
      logger->set_level(*level);
    else
      logger->warn("CCOLL_LOG={}: {}", *text, level.error().message);
  }
  if (const auto pattern = read_variable("CCOLL_LOG_FILE")) {
    const std::string name = log_file_name(*pattern, host_name(), ::getpid());
    try {
      logger->sinks().push_back(open_file(name));
      errors->set_level(level_enum::warn);
    } catch (const spdlog::spdlog_ex& error) {
      logger->warn("CCOLL_LOG_FILE={}: {}; remarks go to standard error", *pattern, error.what());
    }
  }
  return logger;
}

}  // namespace

spdlog::logger& log() {
  // Never destroyed: other threads may have something to say while the process ends.
  static auto& logger = *new std::shared_ptr<spdlog::logger>(make_logger());
  return *logger;
}

Result<level_enum> parse_log_level(std::string_view text) {
  std::vector<std::string_view> names;
  for (const Level& row : kLevels) {
    if (folded(text) == row.name) return row.level;
    names.push_back(row.name);
  }
  return fail(ErrorKind::invalid_argument, "{}", unknown_word("level", text, names));
}

std::string log_file_name(std::string_view pattern, std::string_view host, int pid) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') name += host;
    if (next == 'p') name += std::to_string(pid);
    if (next == '%') name += '%';
    if (next == 'h' || next == 'p' || next == '%') {
      ++i;
    } else {
      name += pattern[i];
    }
  }
  return name;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "?";
  return name.data();
}

}  // namespace ccoll
