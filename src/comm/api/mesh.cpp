// SPDX-License-Identifier: Apache-2.0
#include "ccoll/mesh.hpp"

#include <algorithm>
#include <limits>

#include "comm/api/session.hpp"
#include "comm/groups/exchange.hpp"
#include "core/text.hpp"

namespace ccoll {
namespace {

[[noreturn]] void refuse(std::string message) {
  raise({ErrorKind::invalid_argument, "mesh: " + std::move(message), std::nullopt});
}

/// "data 2 × model 3".
std::string text_of(const std::vector<Mesh::Axis>& axes) {
  std::string text;
  for (const auto& axis : axes)
    text += fmt::format("{}{} {}", text.empty() ? "" : " × ", axis.name, axis.size);
  return text;
}

void check_axes(const std::vector<Mesh::Axis>& axes, int ranks) {
  if (axes.empty()) refuse("it has no axis; give at least one");
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  std::int64_t product = 1;
  for (std::size_t i = 0; i < axes.size(); i++) {
    const auto& axis = axes[i];
    if (axis.name.empty()) refuse(fmt::format("axis {} has no name", i));
    if (axis.size < 1)
      refuse(fmt::format("axis {} has size {}; sizes are at least 1", axis.name, axis.size));
    for (std::size_t other = 0; other < i; other++)
      if (axes[other].name == axis.name) refuse(fmt::format("two axes are called {}", axis.name));
    // Beyond any number of ranks the product is wrong already: stop before it overflows.
    if (product <= kMost) product *= axis.size;
  }
  if (product != ranks)
    refuse(fmt::format("{} is {} ranks, the communicator has {}", text_of(axes),
                       product > kMost ? "too many" : std::to_string(product), ranks));
}

}  // namespace

Mesh::Mesh(Communicator& communicator, std::vector<Axis> axes, const GroupOptions& options)
    : axes_(std::move(axes)) {
  check_axes(axes_, communicator.size());
  const auto held = communicator.session();  // another thread may close it meanwhile
  held->self().value_or_raise(held->exchange().agree(kMesh, text_of(axes_)));
  coordinates_ = coordinates_of(communicator.rank());
  for (std::size_t i = 0; i < axes_.size(); i++) {
    // A line is known by its rank with coordinate 0.
    auto first = coordinates_;
    first[i] = 0;
    auto along = options;
    along.name = fmt::format("{}/{}", options.name.empty() ? communicator.name() : options.name,
                             axes_[i].name);
    for (std::size_t other = 0; other < axes_.size(); other++)
      if (other != i && axes_[other].size > 1)
        along.name += fmt::format("@{}{}", axes_[other].name, coordinates_[other]);
    lines_.push_back(*communicator.split(rank_at(first), coordinates_[i], along));
  }
}

std::size_t Mesh::index_of(std::string_view axis) const {
  const auto found = std::ranges::find(axes_, axis, &Axis::name);
  if (found == axes_.end())
    refuse(fmt::format("no axis is called '{}'; it is {}", axis, text_of(axes_)));
  return static_cast<std::size_t>(found - axes_.begin());
}

int Mesh::size(std::string_view axis) const { return axes_[index_of(axis)].size; }

int Mesh::coordinate(std::string_view axis) const { return coordinates_[index_of(axis)]; }

std::vector<int> Mesh::coordinates_of(int rank) const {
  std::vector<int> coordinates(axes_.size());
  int rest = rank;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    coordinates[i] = rest % axes_[i].size;
    rest /= axes_[i].size;
  }
  if (rank < 0 || rest != 0)
    refuse(fmt::format("it has no rank {}; it is {}", rank, text_of(axes_)));
  return coordinates;
}

int Mesh::rank_at(std::span<const int> coordinates) const {
  if (coordinates.size() != axes_.size())
    refuse(fmt::format("{} coordinates were given; it is {}", coordinates.size(), text_of(axes_)));
  int rank = 0;
  for (std::size_t i = 0; i < axes_.size(); i++) {
    if (coordinates[i] < 0 || coordinates[i] >= axes_[i].size)
      refuse(fmt::format("{} {} is out of range; it is {}", axes_[i].name, coordinates[i],
                         text_of(axes_)));
    rank = rank * axes_[i].size + coordinates[i];
  }
  return rank;
}

Communicator& Mesh::axis(std::string_view axis) { return lines_[index_of(axis)]; }

}  // namespace ccoll
