// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The ranks of a communicator as a grid whose axes have names: data × model, say. Each line of
/// ranks along an axis gets a communicator.

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/communicator.hpp"

namespace ccoll {

/// Row-major: the last axis runs fastest. With {{"data", 2}, {"model", 3}}, rank 4 stands at data
/// 1, model 1, next to ranks 3 and 5 along "model", and rank 1 along "data".
///
/// Movable, not copyable. Its communicators live as long as it does.
class CCOLL_API Mesh {
 public:
  /// One dimension: its name, and how many ranks lie along it.
  struct Axis {
    std::string name;
    int size = 1;
  };

  /// Collective over `communicator`; every rank passes the same axes. Throws
  /// Error{invalid_argument} if the sizes' product is not the number of ranks, and Error{mismatch},
  /// naming both sides, if ranks pass different axes. `options.name` begins the names of its
  /// communicators; by default it is the name of `communicator`.
  Mesh(Communicator& communicator, std::vector<Axis> axes, const GroupOptions& options = {});

  const std::vector<Axis>& axes() const { return axes_; }
  /// Number of ranks along that axis. Here and below, an unknown axis is an Error{invalid_argument}
  /// that lists the axes of the mesh.
  int size(std::string_view axis) const;
  /// The place of this rank, one number per axis.
  const std::vector<int>& coordinates() const { return coordinates_; }
  int coordinate(std::string_view axis) const;
  /// The place of rank `rank` (of the communicator that the mesh was made from).
  std::vector<int> coordinates_of(int rank) const;
  /// The rank (of that communicator) at that place; one number per axis, each in range.
  int rank_at(std::span<const int> coordinates) const;
  int rank_at(std::initializer_list<int> coordinates) const {
    return rank_at(std::span(coordinates.begin(), coordinates.size()));
  }

  /// The ranks along that axis through this one, in the order of their coordinates: this rank's
  /// number there is coordinate(axis).
  Communicator& axis(std::string_view axis);

 private:
  std::size_t index_of(std::string_view axis) const;

  std::vector<Axis> axes_;
  std::vector<int> coordinates_;
  std::vector<Communicator> lines_;  ///< by axis
};

}  // namespace ccoll
