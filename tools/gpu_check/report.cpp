// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace ccoll::gpu_check {
namespace {

using nlohmann::json;

bool is(const json& record, const char* what) { return record.value("what", "") == what; }

/// "GPU X, compute 9.0, driver 580.1 for CUDA 13.0, runtime 13.0".
std::string device_of(const json& document) {
  const json& device = document["device"];
  if (device.is_null())
    return document.value("outcome", "") == word(Outcome::no_device) ? "no GPU"
                                                                     : "a GPU that said nothing";
  return fmt::format("{}, compute {}, driver {} for CUDA {}, runtime {}", device.value("name", "?"),
                     device.value("compute", "?"), device.value("driver", "?"),
                     device.value("driver_cuda", "?"), device.value("runtime_cuda", "?"));
}

Outcome outcome_of(const std::vector<Ending>& endings) {
  switch (status_of(endings)) {
    case kPassed:
      return Outcome::passed;
    case kNoDevice:
      return Outcome::no_device;
    default:
      break;
  }
  const bool is_wrong = std::ranges::count(endings, Outcome::wrong, &Ending::outcome) != 0;
  return is_wrong ? Outcome::wrong : Outcome::incomplete;
}

/// The place in the document for a phase's record.
const char* place_of(const json& record) {
  return is(record, "check") ? "checks" : is(record, "wrong") ? "wrong" : "records";
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

/// A row of figures; empty for other records.
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
    return fmt::format("| {} of {} {} by {}, {} B | {:.1f} µs | the copies alone {:.1f} µs |\n",
                       record.value("call", ""), record.value("ranks", 0),
                       record.value("ranks_are", ""), record.value("way", ""),
                       record.value("bytes", 0), record.value("seconds", 0.0) * 1e6,
                       record.value("copies_s", 0.0) * 1e6);
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

json document(const RunFacts& facts, const std::vector<Ending>& endings,
              const std::vector<json>& records) {
  json made = {{"run", facts.run},
               {"what", facts.what},
               {"command", facts.command},
               {"commit", facts.commit},
               {"date", facts.began},
               {"seed", facts.seed},
               {"outcome", word(outcome_of(endings))},
               {"device", nullptr},
               {"phases", json::array()}};
  for (const Ending& each : endings) {
    json phase = {{"phase", each.phase},
                  {"outcome", word(each.outcome)},
                  {"said", each.said},
                  {"seconds", each.seconds}};
    for (const json& record : records) {
      if (is(record, "device")) made["device"] = record;
      const bool is_frame = is(record, "begin") || is(record, "end");
      if (record.value("phase", "") == each.phase && !is_frame)
        phase[place_of(record)].push_back(record);
    }
    made["phases"].push_back(std::move(phase));
  }
  return made;
}

std::string report(const std::vector<json>& documents) {
  if (documents.empty()) return "";
  const json& first = documents[0];
  std::string text = fmt::format("## {}: {}, commit {}\n\n", first.value("date", "").substr(0, 10),
                                 device_of(first), first.value("commit", "?"));
  std::string wrong, rows;
  text += "| run | phase | outcome | s | |\n|---|---|---|---|---|\n";
  for (const json& each : documents) {
    for (const json& phase : each["phases"]) {
      text += fmt::format("| {} | {} | {} | {:.0f} | {} |\n", each.value("run", ""),
                          phase.value("phase", ""), phase.value("outcome", ""),
                          phase.value("seconds", 0.0), phase.value("said", ""));
      for (const json& found : phase.value("wrong", json::array()))
        wrong += fmt::format("- {}: {}\n", phase.value("phase", ""), found.value("said", ""));
      for (const json& record : phase.value("records", json::array())) rows += row_of(record);
    }
  }
  if (!wrong.empty()) text += "\nWrong:\n\n" + wrong;
  if (!rows.empty()) text += "\n| figure | measured | target |\n|---|---|---|\n" + rows;
  text += "\nBy:\n\n";
  for (const json& each : documents)
    text += fmt::format("- {}, {}, seed {}: `{}`\n", each.value("run", ""), each.value("date", ""),
                        each.value("seed", std::uint64_t{0}), each.value("command", ""));
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
