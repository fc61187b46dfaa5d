// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The judged calls: each has an operation, type, reduction, root, size and placement of its
/// buffers, and their contents before and after.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "elements.hpp"
#include "memory.hpp"

namespace conformance {

enum class Operation {
  all_reduce,
  broadcast,
  bcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  shift,     ///< each rank sends to the rank `root` after it; to itself if that is 0
  exchange,  ///< all_to_all by sends and receives
};
inline constexpr int kOperations = 11;

struct Case {
  Operation operation = Operation::all_reduce;
  const Type* type = nullptr;
  Reduction reduction = Reduction::sum;
  int root = 0;
  std::size_t count = 0;
  std::size_t offset = 0;  ///< from the start of memory to the buffers, in elements
  bool in_place = false;
  std::uint64_t seed = 0;  ///< distinguishes its data from other cases'

  std::string text(int ranks) const;
  bool reduces() const;
  /// Whether it consists of messages, which need a group if one thread makes them all.
  bool is_of_messages() const {
    return operation == Operation::shift || operation == Operation::exchange;
  }
};

/// A rank's part of a case: its buffers, the call and the check.
class Part {
 public:
  Part(const Case& judged, int rank, int ranks, Memory& memory);
  ~Part();
  Part(Part&&) noexcept;
  Part& operator=(Part&&) = delete;

  /// Writes the inputs, and marks all other memory.
  void fill();
  /// Makes the call; returns the first code that is not ncclSuccess, if any.
  ncclResult_t call(ncclComm_t communicator, cudaStream_t stream);
  /// Describes the first error; empty if there is none.
  std::string wrong();

 private:
  struct Extent {
    std::size_t begin = 0;
    std::size_t count = 0;
  };
  Value input(int rank, std::size_t index) const;
  Value expected(std::size_t index) const;
  bool receives() const;
  bool sends() const;
  unsigned char* at(const Extent& extent) const;
  ncclResult_t messages(ncclComm_t communicator, cudaStream_t stream);
  ncclResult_t make_operation(ncclRedOp_t& op, ncclComm_t communicator);

  Case judged_;
  int rank_;
  int ranks_;
  Memory* memory_;
  Extent send_;  ///< in elements of the memory, like the other
  Extent recv_;
  std::size_t bytes_ = 0;
  unsigned char* data_ = nullptr;
  void* factor_ = nullptr;             ///< for a pre-multiplied sum, read when the call runs
  std::vector<unsigned char> before_;  ///< the memory's content when the call was made
};

/// How many cases there are, and how large.
struct Scope {
  bool full = false;
  int ranks = 1;
  std::uint64_t seed = 1;
};
std::vector<Case> cases(const Scope& scope);

}  // namespace conformance
