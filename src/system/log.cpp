// SPDX-License-Identifier: Apache-2.0
#include "system/log.hpp"

#include <pthread.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "system/file_descriptor.hpp"
#include "system/variables.hpp"

namespace ccoll {
namespace {

struct Level {
  std::string_view name;
  LogLevel level;
};
/// The levels by LogLevel, without `error`, because a log of errors only would hide warnings.
constexpr std::array<Level, 4> kLevels = {{
    {"warn", LogLevel::warn},
    {"info", LogLevel::info},
    {"debug", LogLevel::debug},
    {"trace", LogLevel::trace},
}};

spdlog::level::level_enum spdlogs(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return spdlog::level::trace;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      break;
  }
  return spdlog::level::err;
}

/// Lines of several processes may share a file, so each names its process.
spdlog::sink_ptr open_file(const std::string& name) {
  const auto folder = std::filesystem::path(name).parent_path();
  // spdlog would create it.
  if (!folder.empty() && !std::filesystem::is_directory(folder))
    throw spdlog::spdlog_ex(fmt::format("there is no directory {}", folder.string()));
  auto sink = made_beyond_standard_streams(
      [&] { return std::make_shared<spdlog::sinks::basic_file_sink_mt>(name); });
  sink->set_pattern(fmt::format("%Y-%m-%d %H:%M:%S.%f {}:%P %l: %v", host_name()));
  return sink;
}

/// spdlog's own lock belongs to the whole process, and C++'s stream flushes the program's output.
class StandardError final : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  void flush_() override { std::fflush(stderr); }
};

class Spdlog final : public Log {
 public:
  explicit Spdlog(LogLevel level) : Log(level), errors_(std::make_shared<StandardError>()) {
    errors_->set_pattern("%n: %l: %v");
    errors_->set_level(spdlogs(level));
    logger_ = std::make_shared<spdlog::logger>("ccoll", errors_);
    logger_->set_level(spdlog::level::trace);
    // A process that dies loses its buffers, and their lines are the interesting ones.
    logger_->flush_on(spdlog::level::trace);
    logger_->set_error_handler([told = false](const std::string& why) mutable {
      if (!std::exchange(told, true))
        fmt::print(stderr, "ccoll: warning: a log line is lost: {}\n", why);
    });
  }

  void write(LogLevel level, std::string_view line) override { logger_->log(spdlogs(level), line); }

  void also_to_file(const std::string& pattern) {
    try {
      logger_->sinks().push_back(open_file(log_file_name(pattern, host_name(), ::getpid())));
      errors_->set_level(spdlog::level::warn);
    } catch (const spdlog::spdlog_ex& error) {
      warn("{}={}: {}; log lines go to standard error only", set_as("CCOLL_LOG_FILE"), pattern,
           error.what());
    }
  }

 private:
  std::shared_ptr<StandardError> errors_;
  std::shared_ptr<spdlog::logger> logger_;
};

std::unique_ptr<Log> make_log() {
  const auto text = read_variable("CCOLL_LOG");
  const auto level = text ? parse_log_level(*text) : LogLevel::warn;
  auto made = std::make_unique<Spdlog>(level.value_or(LogLevel::warn));
  if (!level) made->warn("CCOLL_LOG={}: {}", *text, level.error().message);
  if (const auto pattern = read_variable("CCOLL_LOG_FILE")) made->also_to_file(*pattern);
  return made;
}

/// Null until this process has a log. Never destroyed: other threads may log while it ends. A
/// forked child makes its own: a thread that it lacks may have held this one's locks. No part of
/// Runtime, because static constructors log, and each call asks for the level.
constinit std::atomic<Log*> of_process = nullptr;
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { of_process = nullptr; });

}  // namespace

Log& log() {
  Log* made = of_process.load(std::memory_order_acquire);
  if (made != nullptr) return *made;
  auto fresh = make_log();
  return of_process.compare_exchange_strong(made, fresh.get()) ? *fresh.release() : *made;
}

Result<LogLevel> parse_log_level(std::string_view text) {
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
