// SPDX-License-Identifier: Apache-2.0
#include "comm/api/mesh_shape.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/text.hpp"

namespace ccoll {

std::string text_of(const Axes& axes) {
  std::string text;
  for (const auto& axis : axes)
    text += fmt::format("{}{} {}", text.empty() ? "" : " × ", axis.name, axis.size);
  return text;
}

Status check_axes(const Axes& axes, int ranks) {
  if (axes.empty())
    return fail(ErrorKind::invalid_argument, "mesh: it has no axis; give at least one");
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  std::int64_t product = 1;
  for (std::size_t i = 0; i < axes.size(); i++) {
    const auto& axis = axes[i];
    if (axis.name.empty()) return fail(ErrorKind::invalid_argument, "mesh: axis {} has no name", i);
    if (axis.size < 1)
      return fail(ErrorKind::invalid_argument, "mesh: axis {} has size {}; sizes are at least 1",
                  axis.name, axis.size);
    for (std::size_t other = 0; other < i; other++)
      if (axes[other].name == axis.name)
        return fail(ErrorKind::invalid_argument, "mesh: two axes are called {}", axis.name);
    // Beyond any number of ranks the product is wrong already: stop before it overflows.
    if (product <= kMost) product *= axis.size;
  }
  if (product != ranks)
    return fail(ErrorKind::invalid_argument, "mesh: {} is {} ranks, the communicator has {}",
                text_of(axes), product > kMost ? "too many" : std::to_string(product), ranks);
  return {};
}

Result<std::size_t> index_of(const Axes& axes, std::string_view name) {
  const auto found = std::ranges::find(axes, name, &Mesh::Axis::name);
  if (found == axes.end())
    return fail(ErrorKind::invalid_argument, "mesh: no axis is called '{}'; it is {}", name,
                text_of(axes));
  return static_cast<std::size_t>(found - axes.begin());
}

Result<std::vector<int>> coordinates_of(const Axes& axes, int rank) {
  std::vector<int> coordinates(axes.size());
  int rest = rank;
  for (std::size_t i = axes.size(); i-- > 0;) {
    coordinates[i] = rest % axes[i].size;
    rest /= axes[i].size;
  }
  if (rank < 0 || rest != 0)
    return fail(ErrorKind::invalid_argument, "mesh: it has no rank {}; it is {}", rank,
                text_of(axes));
  return coordinates;
}

Result<int> rank_at(const Axes& axes, std::span<const int> coordinates) {
  if (coordinates.size() != axes.size())
    return fail(ErrorKind::invalid_argument, "mesh: {} coordinates were given; it is {}",
                coordinates.size(), text_of(axes));
  int rank = 0;
  for (std::size_t i = 0; i < axes.size(); i++) {
    if (coordinates[i] < 0 || coordinates[i] >= axes[i].size)
      return fail(ErrorKind::invalid_argument, "mesh: {} {} is out of range; it is {}",
                  axes[i].name, coordinates[i], text_of(axes));
    rank = rank * axes[i].size + coordinates[i];
  }
  return rank;
}

std::string line_name(const Axes& axes, std::span<const int> coordinates, std::size_t along) {
  std::string name = axes[along].name;
  for (std::size_t other = 0; other < axes.size(); other++)
    if (other != along && axes[other].size > 1)
      name += fmt::format("@{}{}", axes[other].name, coordinates[other]);
  return name;
}

}  // namespace ccoll
