// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>

namespace ccoll::gpu_check {
namespace {

using nlohmann::json;

bool is(const json& record, const char* what) { return record.value("what", "") == what; }

std::string device_of(const std::vector<Ending>& endings, const std::vector<json>& records) {
  if (status_of(endings) == kNoDevice) return "no GPU";
  for (const json& each : records) {
    if (!is(each, "device")) continue;
    return fmt::format("{}, compute {}, driver {}, runtime {}", each.value("name", "?"),
                       each.value("compute", "?"), each.value("driver", 0),
                       each.value("runtime", 0));
  }
  return "a GPU that nothing was said of";
}

std::string target_of(const json& result) {
  if (!result.contains("target") || !result["target"].is_number()) return "";
  const double target = result["target"].get<double>();
  const double measured = result.value("measured", 0.0);
  const bool is_least = result.value("is_least", false);
  const bool is_met = is_least ? measured >= target : measured <= target;
  return fmt::format("at {} {:g}: {}", is_least ? "least" : "most", target,
                     is_met ? "met" : "missed");
}

/// A row of figures; empty for what is none.
std::string row_of(const json& record) {
  if (is(record, "result")) {
    return fmt::format("| {} | {:.3f} × {} | {} |\n", record.value("name", ""),
                       record.value("measured", 0.0), record.value("unit", ""), target_of(record));
  }
  if (is(record, "figure") && record.value("median_s", 0.0) > 0) {
    return fmt::format("| {} | {:.1f} GB/s | |\n", record.value("name", ""),
                       record.value("bytes", 0.0) / record["median_s"].get<double>() / 1e9);
  }
  if (is(record, "all_reduce by ring")) {
    const double to_bound = record.value("to_bound", 0.0);
    return fmt::format(
        "| all_reduce of {} processes{}, {} B | {:.1f} µs | {:.2f} of the most: {} |\n",
        record.value("ranks", 0), record.value("mps", false) ? " by MPS" : "",
        record.value("bytes", 0), record.value("seconds", 0.0) * 1e6, to_bound,
        to_bound <= 1 ? "met" : "missed");
  }
  if (is(record, "a call in streams")) {
    return fmt::format("| {} of {} {}, {} B | {:.1f} µs | the copies alone {:.1f} µs |\n",
                       record.value("call", ""), record.value("ranks", 0),
                       record.value("ranks_are", ""), record.value("bytes", 0),
                       record.value("seconds", 0.0) * 1e6, record.value("copies_s", 0.0) * 1e6);
  }
  return {};
}

}  // namespace

std::vector<json> read_records(const std::string& path, std::size_t from) {
  std::ifstream file(path);
  file.seekg(static_cast<std::streamoff>(from));
  std::vector<json> records;
  for (std::string line; std::getline(file, line);) {
    auto record = json::parse(line, nullptr, false);
    if (record.is_object()) records.push_back(std::move(record));
  }
  return records;
}

std::string report(const std::string& date, const std::vector<Ending>& endings,
                   const std::vector<json>& records) {
  std::string text = fmt::format("## {}: {}\n\n| phase | outcome | s | |\n|---|---|---|---|\n",
                                 date, device_of(endings, records));
  for (const Ending& each : endings) {
    text += fmt::format("| {} | {} | {:.0f} | {} |\n", each.phase, word(each.outcome), each.seconds,
                        each.said);
  }
  const auto rows = figures(records, SIZE_MAX);
  if (!rows.empty()) text += "\n| figure | measured | target |\n|---|---|---|\n" + rows;
  return text;
}

std::string figures(const std::vector<json>& records, std::size_t most) {
  std::string rows;
  std::size_t count = 0;
  for (const json& each : records) {
    const auto row = row_of(each);
    if (!row.empty() && count++ < most) rows += row;
  }
  if (count > most) rows += fmt::format("{} more figures are in table.md\n", count - most);
  return rows;
}

}  // namespace ccoll::gpu_check
