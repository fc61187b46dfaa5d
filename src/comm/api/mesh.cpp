// SPDX-License-Identifier: Apache-2.0
#include "ccoll/mesh.hpp"

#include "comm/api/mesh_shape.hpp"
#include "comm/api/session.hpp"
#include "comm/groups/exchange.hpp"
#include "core/text.hpp"

namespace ccoll {

Mesh::Mesh(Communicator& communicator, std::vector<Axis> axes, const GroupOptions& options)
    : axes_(std::move(axes)) {
  value_or_throw(check_axes(axes_, communicator.size()));
  const auto held = communicator.session();  // another thread may close it meanwhile
  held->self().value_or_raise(held->exchange().agree(kMesh, text_of(axes_)));
  coordinates_ = coordinates_of(communicator.rank());
  for (std::size_t i = 0; i < axes_.size(); i++) {
    // A line is known by its rank with coordinate 0.
    auto first = coordinates_;
    first[i] = 0;
    auto along = options;
    along.name = fmt::format("{}/{}", options.name.empty() ? communicator.name() : options.name,
                             line_name(axes_, coordinates_, i));
    lines_.push_back(*communicator.split(rank_at(first), coordinates_[i], along));
  }
}

std::size_t Mesh::index_of(std::string_view axis) const {
  return value_or_throw(ccoll::index_of(axes_, axis));
}

int Mesh::size(std::string_view axis) const { return axes_[index_of(axis)].size; }

int Mesh::coordinate(std::string_view axis) const { return coordinates_[index_of(axis)]; }

std::vector<int> Mesh::coordinates_of(int rank) const {
  return value_or_throw(ccoll::coordinates_of(axes_, rank));
}

int Mesh::rank_at(std::span<const int> coordinates) const {
  return value_or_throw(ccoll::rank_at(axes_, coordinates));
}

Communicator& Mesh::axis(std::string_view axis) { return lines_[index_of(axis)]; }

}  // namespace ccoll
