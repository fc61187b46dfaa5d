// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The results of a run: a JSON document for programs, and tables for docs/gpu.md.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu_check/runner.hpp"

namespace ccoll::gpu_check {

/// The facts about a run in addition to its findings.
struct RunFacts {
  std::string run;      ///< its name: "a"
  std::string what;     ///< its purpose
  std::string command;  ///< the command that started it
  std::string commit;   ///< the commit of the program
  std::string began;    ///< "2026-11-27 12:00:00 UTC"
  std::uint64_t seed = 0;
};

/// The whole records from byte `from` on.
std::vector<nlohmann::json> read_records(const std::string& path, std::size_t from);

/// The facts, the device, and each phase with its checks, errors and other records.
nlohmann::json document(const RunFacts& facts, const std::vector<Ending>& endings,
                        const std::vector<nlohmann::json>& records);

/// Tables of all phases and figures of these runs, dated, for docs/gpu.md.
std::string report(const std::vector<nlohmann::json>& documents);

/// The first `most` rows of figures.
std::string figures(const std::vector<nlohmann::json>& records, std::size_t most);

}  // namespace ccoll::gpu_check
