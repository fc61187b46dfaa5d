// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is left of a run: a JSON document for programs, and tables for docs/gpu.md.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu_check/runner.hpp"

namespace ccoll::gpu_check {

/// What a document says of its run beside what the run found.
struct RunFacts {
  std::string run;      ///< its name: "a"
  std::string what;     ///< what it is for
  std::string command;  ///< by which it was started
  std::string commit;   ///< from which the program was built
  std::string began;    ///< "2026-11-27 12:00:00 UTC"
  std::uint64_t seed = 0;
};

/// The lines from byte `from` on, without what is no whole record.
std::vector<nlohmann::json> read_records(const std::string& path, std::size_t from);

/// The facts, the device, and each phase with its checks, what was wrong, and its other records.
nlohmann::json document(const RunFacts& facts, const std::vector<Ending>& endings,
                        const std::vector<nlohmann::json>& records);

/// Tables of all phases and figures of these runs, dated, as they belong into docs/gpu.md.
std::string report(const std::vector<nlohmann::json>& documents);

/// The first `most` rows of figures.
std::string figures(const std::vector<nlohmann::json>& records, std::size_t most);

}  // namespace ccoll::gpu_check
