// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the ranks of a mesh stand: row by row, the last axis fastest. Knows nothing of a
/// communicator. Refusals are invalid_argument, and list the axes.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/mesh.hpp"
#include "core/result.hpp"

namespace ccoll {

using Axes = std::vector<Mesh::Axis>;

/// "data 2 × model 3".
std::string text_of(const Axes& axes);

/// Fails unless the axes have names and sizes, no name twice, and room for exactly `ranks` ranks.
Status check_axes(const Axes& axes, int ranks);

Result<std::size_t> index_of(const Axes& axes, std::string_view name);

// For axes that have passed the check:

Result<std::vector<int>> coordinates_of(const Axes& axes, int rank);
Result<int> rank_at(const Axes& axes, std::span<const int> coordinates);

/// The name of the line of ranks along axis `along` through that place: "model@data0@pipe1". Axes
/// of one rank are left out.
std::string line_name(const Axes& axes, std::span<const int> coordinates, std::size_t along);

}  // namespace ccoll
