// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A random call, the same on all ranks, and its input.

#include <fmt/format.h>

#include <cstddef>
#include <random>
#include <string>

#include "ccoll/communicator.hpp"
#include "schedule/problem.hpp"

namespace ccoll::gpu_check {

/// One call, the same on all ranks.
struct Draw {
  Kind kind = Kind::all_reduce;
  DataType type = DataType::uint32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;

  std::size_t bytes(bool input, int size) const {
    if (kind == Kind::barrier) return 0;
    const bool many =
        kind == Kind::all_to_all || (input ? kind == Kind::reduce_scatter || kind == Kind::scatter
                                           : kind == Kind::all_gather || kind == Kind::gather);
    return count * size_of(type) * (many ? static_cast<std::size_t>(size) : 1);
  }
  std::string text() const {
    return fmt::format("{} of {} {} ({}), root {}{}", to_string(kind), count, to_string(type),
                       to_string(op), root, in_place ? ", in place" : "");
  }
  Work begin(Communicator& c, const void* input, void* output, const CallOptions& options) const;
};

Draw random_draw(std::mt19937_64& same, int size);

void fill(std::byte* to, std::size_t bytes, DataType type, std::mt19937_64& random);

}  // namespace ccoll::gpu_check
