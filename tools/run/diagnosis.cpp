// SPDX-License-Identifier: Apache-2.0
#include "run/diagnosis.hpp"

#include <string.h>

#include <algorithm>
#include <filesystem>

#include "dumps/diagnosis.hpp"
#include "dumps/read.hpp"

namespace ccoll {
namespace {

dump::Process process_of(const RankEnd& end) {
  using End = dump::Process::End;
  dump::Process process;
  process.rank = static_cast<std::uint32_t>(end.rank);
  process.process = static_cast<std::uint64_t>(end.process);
  process.told = end.expected;
  process.stopped = end.stopped;
  if (end.by_signal) {
    const char* const name = ::sigabbrev_np(end.code);
    process.end = End::signal;
    process.with = name != nullptr ? std::string("SIG") + name : std::to_string(end.code);
  } else {
    process.end = end.code == 0 ? End::well : End::status;
    process.with = std::to_string(end.code);
  }
  return process;
}

/// Diagnoses from the dumps that the job has written.
std::vector<std::string> diagnose(const std::string& dumps, const std::vector<RankEnd>& ends,
                                  std::chrono::system_clock::time_point started) {
  if (!std::filesystem::exists(dumps)) return {};
  std::vector<std::string> remarks;
  auto found = dump::read_directory(dumps, remarks);
  const auto since =
      std::chrono::duration_cast<std::chrono::nanoseconds>(started.time_since_epoch()).count();
  std::erase_if(found, [&](const dump::Dump& each) { return each.at < since; });
  std::vector<dump::Process> processes;
  for (const auto& end : ends) processes.push_back(process_of(end));
  return found.empty() ? std::vector<std::string>() : dump::diagnose(found, processes);
}

}  // namespace

std::vector<std::string> diagnosis(const std::string& dumps, const std::vector<RankEnd>& ends,
                                   std::chrono::system_clock::time_point started) {
  const bool well =
      std::ranges::all_of(ends, [](const RankEnd& end) { return !end.by_signal && end.code == 0; });
  return well ? std::vector<std::string>() : diagnose(dumps, ends, started);
}

std::vector<std::string> diagnosis_of_running(const std::string& dumps,
                                              const std::vector<RankEnd>& running,
                                              std::chrono::system_clock::time_point started) {
  return diagnose(dumps, running, started);
}

}  // namespace ccoll
