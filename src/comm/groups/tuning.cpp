// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <locale>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>

#include "core/float_state.hpp"
#include "system/file_descriptor.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"
#include "system/variables.hpp"
#include "system/write_all.hpp"
#include "transport/transport.hpp"

namespace ccoll {
namespace {

constexpr std::string_view kFirstLine = "ccoll tuning 2";

/// No tuning is so long; a device, or another kind of file, may have no end.
constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;

struct Number {
  std::string_view name;
  double& (*of)(MeasuredCosts&);
  double least;  ///< no machine is beyond; keeps predictions from overflowing
  double most;
};
constexpr std::array kNumbers = {
    Number{"latency_ns", [](MeasuredCosts& c) -> double& { return c.links.latency_ns; }, 1, 1e9},
    Number{"step_ns", [](MeasuredCosts& c) -> double& { return c.links.step_ns; }, 1, 1e9},
    Number{"bytes_per_s", [](MeasuredCosts& c) -> double& { return c.links.bandwidth_bytes_per_s; },
           1e3, 1e15},
    Number{"sender_share", [](MeasuredCosts& c) -> double& { return c.links.sender_share; }, 0, 1},
    Number{"reduced_bytes_per_s", [](MeasuredCosts& c) -> double& { return c.reduce_bytes_per_s; },
           1e3, 1e15},
};

Result<MeasuredCosts> parse_numbers(std::istringstream& words, std::string_view line) {
  MeasuredCosts costs;
  std::string name;
  for (const auto& number : kNumbers) {
    double value = 0;
    const bool read = words >> name >> value && name == number.name;
    if (!read || !(value >= number.least && value <= number.most))
      return fail(ErrorKind::invalid_argument, "'{}': {} and a number from {} to {} are expected",
                  line, number.name, number.least, number.most);
    number.of(costs) = value;
  }
  if (words >> name)
    return fail(ErrorKind::invalid_argument, "'{}': nothing is expected before '{}'", line, name);
  return costs;
}

bool is_link_class(std::string_view name) {
  return std::ranges::any_of(transports(), [&](const TransportKind& kind) {
    return name == link_class(kind.name, false, true) ||
           name == link_class(kind.name, true, true) || name == link_class(kind.name, false, false);
  });
}

/// Whether this process is about to make the file.
struct WillSave {
  std::atomic<bool> yes = false;
};

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string reason() { return std::error_code(errno, std::generic_category()).message(); }

/// Nothing if there is no such file.
Result<std::optional<std::string>> read_file(const std::string& path) {
  const StandardStreamsTaken taken;
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "re"));
  if (!file && errno == ENOENT) return std::nullopt;
  std::string text;
  std::array<char, 4096> part;
  while (file && !std::ferror(file.get()) && !std::feof(file.get()) &&
         text.size() <= kMostFileBytes)
    text.append(part.data(), std::fread(part.data(), 1, part.size(), file.get()));
  if (!file || std::ferror(file.get()))
    return fail(ErrorKind::invalid_argument, "it cannot be read: {}", reason());
  if (text.size() > kMostFileBytes)
    return fail(ErrorKind::invalid_argument,
                "it is not a file of costs: it is longer than {} bytes", kMostFileBytes);
  return text;
}

}  // namespace

std::string link_class(std::string_view transport, bool oversubscribed, bool one_host) {
  return fmt::format("{}{}", transport, !one_host ? "/network" : oversubscribed ? "/crowded" : "");
}

std::string to_text(const Tuning& tuning) {
  std::string text = fmt::format("{}\n", kFirstLine);
  for (auto [name, costs] : tuning) {
    text += name;
    for (const auto& number : kNumbers)
      text += fmt::format(" {} {:.4g}", number.name, number.of(costs));
    text += '\n';
  }
  return text;
}

Result<Tuning> parse_tuning(std::string_view text) {
  const DefaultFloatState state;  // all ranks read the same, however their threads round
  if (text.empty()) return Tuning{};
  std::istringstream lines{std::string(text)};
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine)
    return fail(ErrorKind::invalid_argument, "'{}': expected the first line '{}'", line,
                kFirstLine);
  Tuning tuning;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    words.imbue(std::locale::classic());
    std::string name;
    if (!(words >> name)) continue;
    if (!is_link_class(name))
      return fail(ErrorKind::invalid_argument, "'{}': '{}' is not a kind of link", line, name);
    const auto costs = parse_numbers(words, line);
    if (!costs) return tl::unexpected(costs.error());
    tuning.insert_or_assign(name, *costs);
  }
  return tuning;
}

std::string cache_path(std::string_view ending) {
  std::string cache = read_variable("XDG_CACHE_HOME").value_or("");
  if (cache.empty()) {
    const auto home = read_variable("HOME");
    if (!home) return {};
    cache = *home + "/.cache";
  }
  return fmt::format("{}/ccoll/{}.{}", cache, host_name(), ending);
}

std::string tuning_path() { return read_variable("CCOLL_TUNE_FILE").value_or(cache_path("tune")); }

namespace {

/// How a failure calls the file: with the variable that says where it is.
std::string shown(const std::string& path) {
  if (read_variable("CCOLL_TUNE_FILE") == path) return "CCOLL_TUNE_FILE=" + path;
  const auto cache = read_variable("XDG_CACHE_HOME");
  return cache && path.starts_with(*cache) ? fmt::format("XDG_CACHE_HOME={}: {}", *cache, path)
                                           : path;
}

}  // namespace

Tuning load_tuning() {
  const auto path = tuning_path();
  if (path.empty()) return {};
  const auto text = read_file(path);
  const bool is_missing = text && !*text;
  if (is_missing && read_variable("CCOLL_TUNE_FILE") && !Runtime::one<WillSave>().yes)
    log().warn("CCOLL_TUNE_FILE={}: there is no such file; links are priced by estimates", path);
  if (is_missing) return {};
  const auto parsed = text.and_then([](const auto& found) { return parse_tuning(*found); });
  if (parsed) return *parsed;
  log().warn("{}: {}; links are priced by estimates", shown(path), parsed.error().message);
  return {};
}

void will_save_tuning() { Runtime::one<WillSave>().yes = true; }

Status check_tuning_path(const std::string& path) {
  if (path.empty())
    return fail(ErrorKind::invalid_argument,
                "neither CCOLL_TUNE_FILE nor HOME says where to keep costs");
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return fail(ErrorKind::invalid_argument, "{} is not a file that can keep costs", shown(path));
  return {};
}

Status save_tuning(const Tuning& tuning, const std::string& path) {
  CCOLL_TRY(check_tuning_path(path));
  // Other users may read it: an administrator measures for all.
  constexpr unsigned kForAll = 0666;
  return write_file(path, to_text(tuning), kForAll).map_error([&](const Failure& failure) {
    return Failure{failure.kind, fmt::format("{}: {}", shown(path), failure.message), {}};
  });
}

}  // namespace ccoll
