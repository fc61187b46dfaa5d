// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A run as the tables that docs/gpu.md has. Knows no CUDA.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runner.hpp"

namespace ccoll::gpu_check {

/// The lines of a results' file from byte `from` on; those that are no JSON are left out.
std::vector<nlohmann::json> read_records(const std::string& path, std::size_t from);

/// In Markdown: what became of each phase, and the figures that `records` have, with their targets.
std::string report(const std::string& date, const std::vector<Ending>& endings,
                   const std::vector<nlohmann::json>& records);

/// The rows of those figures alone, at most so many; then how many are left out.
std::string figures(const std::vector<nlohmann::json>& records, std::size_t most);

}  // namespace ccoll::gpu_check
