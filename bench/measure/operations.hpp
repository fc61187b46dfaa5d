// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The operations that can be measured: the meaning of a size, the factor from algorithm to bus
/// bandwidth (nccl-tests' definitions), the call, and every rank's expected result.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ccoll/communicator.hpp"
#include "core/result.hpp"
#include "schedule/problem.hpp"

namespace ccoll::bench {

/// One rank's view of a call. `count` is the API's argument: elements of the whole buffer, or of
/// one block for operations over blocks.
struct Shape {
  int size = 1;
  int rank = 0;
  int root = 0;
  std::uint64_t count = 0;
};

/// A run of expected elements: elements [first, first + elems) of the input of rank `source`, or of
/// the reduction of all inputs if `source` is kReduced.
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
  /// The output's expected content, in order; empty if it must stay unchanged.
  std::vector<Segment> result;
  /// Where input and output begin in an in-place call's buffer; meaningful if `shares` is set (a
  /// rooted operation is in place only at the root).
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
  int trips = 1;             ///< how often a call moves the data: a row's times are per trip
};

std::span<const Operation> operations();
/// "all_reduce"; also other spellings: "allreduce", "AllReduce", "MPI_Allreduce", "ncclBcast",
/// "all_reduce_perf". Null if unknown.
const Operation* find_operation(std::string_view name);
/// Empty for operations without a schedule.
std::vector<Algorithm> algorithms_of(const Operation& operation);
/// Words beside operations that a failure lists.
enum class Beside { nothing, commands };
/// A comma list or `all`.
Result<std::vector<const Operation*>> parse_operations(std::string_view list,
                                                       Beside beside = Beside::commands);

/// Bytes that a size is rounded down to.
std::uint64_t size_unit(const Operation& operation, DataType type, int size);
/// The count to call with for `bytes`, which size_unit divides.
std::uint64_t count_of(const Operation& operation, DataType type, int size, std::uint64_t bytes);
/// The collective of such a call; with one element if there is no data.
Problem problem_of(const Operation& operation, DataType type, int size, int root,
                   std::uint64_t bytes);

}  // namespace ccoll::bench
