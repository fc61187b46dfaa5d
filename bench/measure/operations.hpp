// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The operations that can be measured, one row each: what a size means, the factor from algorithm
/// to bus bandwidth (nccl-tests' definitions), the call, and what every rank must hold afterwards.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ccoll/communicator.hpp"
#include "core/result.hpp"
#include "schedule/problem.hpp"

namespace ccoll::bench {

/// One rank's view of a call. `count` is what the API takes: elements of the whole buffer, or of
/// one block for operations over blocks.
struct Shape {
  int size = 1;
  int rank = 0;
  int root = 0;
  std::uint64_t count = 0;
};

/// A run of elements that must be found in a buffer: elements [first, first + elems) of the input
/// of rank `source`, or of the reduction of all inputs where `source` is kReduced.
struct Segment {
  static constexpr int kReduced = -1;
  int source = 0;
  std::uint64_t first = 0;
  std::uint64_t elems = 0;
};

/// One rank's buffers, in elements.
struct Layout {
  std::uint64_t input_elems = 0;
  std::uint64_t output_elems = 0;
  /// What the output must hold, one after another; empty where it must stay as it was.
  std::vector<Segment> result;
  /// Where input and output begin in the one buffer of an in-place call; meaningful where
  /// `shares` is set (a rooted operation shares its buffers at the root only).
  bool shares = false;
  std::uint64_t input_at = 0;
  std::uint64_t output_at = 0;
};

/// The arguments of one call.
struct Arguments {
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  CallOptions options;
};

struct Operation {
  std::string_view name;
  std::optional<Kind> kind;  ///< none: not run by a schedule
  bool over_blocks;          ///< sizes count the blocks of all ranks
  bool rooted;
  bool reduces;
  bool has_in_place;
  bool has_data;  ///< false for the barrier
  double (*bus_factor)(int size);
  Layout (*layout)(const Shape& shape);
  void (*call)(Communicator& communicator, const Arguments& arguments);
  std::string_view meaning;  ///< one line for the help
  bool ragged = false;       ///< a v-operation
  int trips = 1;             ///< of the data in one call: a row's times are those of one
};

std::span<const Operation> operations();
/// "all_reduce"; also as others spell it: "allreduce", "AllReduce", "MPI_Allreduce", "ncclBcast",
/// "all_reduce_perf". Null when there is none.
const Operation* find_operation(std::string_view name);
/// Empty for those that no schedule runs.
std::vector<Algorithm> algorithms_of(const Operation& operation);
/// A comma list or `all`.
Result<std::vector<const Operation*>> parse_operations(std::string_view list);

/// Bytes that a size is rounded down to.
std::uint64_t size_unit(const Operation& operation, DataType type, int size);
/// The count to call with for `bytes`, which size_unit divides.
std::uint64_t count_of(const Operation& operation, DataType type, int size, std::uint64_t bytes);
/// The collective that such a call is; of one element where there is no data.
Problem problem_of(const Operation& operation, DataType type, int size, int root,
                   std::uint64_t bytes);

}  // namespace ccoll::bench
