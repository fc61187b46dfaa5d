// SPDX-License-Identifier: Apache-2.0
#include "comm/tuning.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <locale>
#include <optional>
#include <sstream>

#include "core/log.hpp"
#include "core/variables.hpp"
#include "transport/transport.hpp"

namespace ccoll {
namespace {

constexpr std::string_view kFirstLine = "ccoll tuning 1";

struct Number {
  std::string_view name;
  double& (*of)(MeasuredCosts&);
};
constexpr std::array kNumbers = {
    Number{"latency_ns", [](MeasuredCosts& c) -> double& { return c.links.latency_ns; }},
    Number{"step_ns", [](MeasuredCosts& c) -> double& { return c.links.step_ns; }},
    Number{"bytes_per_s",
           [](MeasuredCosts& c) -> double& { return c.links.bandwidth_bytes_per_s; }},
    Number{"sender_share", [](MeasuredCosts& c) -> double& { return c.links.sender_share; }},
    Number{"reduced_bytes_per_s", [](MeasuredCosts& c) -> double& { return c.reduce_bytes_per_s; }},
};

Result<MeasuredCosts> parse_line(std::istringstream& line, std::string_view whole) {
  MeasuredCosts costs;
  for (const auto& number : kNumbers) {
    std::string name;
    double value = 0;
    if (!(line >> name >> value) || name != number.name || !(value > 0) || std::isinf(value))
      return fail(ErrorKind::invalid_argument, "'{}': {} and a number above 0 are expected", whole,
                  number.name);
    number.of(costs) = value;
  }
  return costs;
}

bool is_link_class(std::string_view name) {
  return std::ranges::any_of(transports(), [&](const TransportKind& kind) {
    return name == link_class(kind.name, false, true) ||
           name == link_class(kind.name, true, true) || name == link_class(kind.name, false, false);
  });
}

/// Nothing when there is no such file.
Result<std::optional<std::string>> read_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return fail(ErrorKind::invalid_argument, "it cannot be read");
  return text.str();
}

}  // namespace

std::string link_class(std::string_view transport, bool crowded, bool one_host) {
  return fmt::format("{}{}", transport, !one_host ? "/network" : crowded ? "/crowded" : "");
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
  if (text.empty()) return Tuning{};
  std::istringstream lines{std::string(text)};
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine)
    return fail(ErrorKind::invalid_argument, "'{}': the first line is '{}'", line, kFirstLine);
  Tuning tuning;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    words.imbue(std::locale::classic());
    std::string name;
    if (!(words >> name)) continue;
    if (!is_link_class(name))
      return fail(ErrorKind::invalid_argument, "'{}': '{}' is no kind of links", line, name);
    const auto costs = parse_line(words, line);
    if (!costs) return tl::unexpected(costs.error());
    tuning.insert_or_assign(name, *costs);
  }
  return tuning;
}

std::string tuning_path() {
  if (const auto chosen = read_variable("CCOLL_TUNE_FILE")) return *chosen;
  std::string cache = read_variable("XDG_CACHE_HOME").value_or("");
  if (cache.empty()) {
    const auto home = read_variable("HOME");
    if (!home) return {};
    cache = *home + "/.cache";
  }
  return fmt::format("{}/ccoll/{}.tune", cache, host_name());
}

Tuning load_tuning() {
  const auto path = tuning_path();
  if (path.empty()) return {};
  const auto parsed = read_file(path).and_then(
      [](const std::optional<std::string>& text) { return text ? parse_tuning(*text) : Tuning{}; });
  if (parsed) return *parsed;
  log().warn("{}: {}; links are priced by estimates", path, parsed.error().message);
  return {};
}

Status save_tuning(const Tuning& tuning, const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path whole(path);
  std::error_code error;
  if (whole.has_parent_path()) fs::create_directories(whole.parent_path(), error);
  const auto part = fmt::format("{}.{}", path, getpid());
  {
    std::ofstream file(part);
    file << to_text(tuning);
    if (file.close(); !file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(part, whole, error);
  if (!error) return {};
  std::error_code ignored;
  fs::remove(part, ignored);
  return fail(ErrorKind::invalid_argument, "{} cannot be written: {}", path, error.message());
}

}  // namespace ccoll
