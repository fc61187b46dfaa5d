// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A requested collective or message: checked at once, made at once or at its group's end.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ccoll/reduction.hpp"
#include "faces/nccl/comm.hpp"

namespace ccoll::nccl {

enum class What : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  send,
  recv,
};

/// The arguments of a function, unchecked.
struct Asked {
  What what;
  const char* function;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = 0;  ///< a message's peer
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

/// The same, checked.
struct Call {
  What what;
  const char* function;
  std::shared_ptr<Comm> comm;
  const void* send;
  void* recv;
  std::size_t count;
  DataType type;
  Reduction op;
  const void* factor;  ///< of a pre-multiplied sum: read as the call begins; NULL: in `op`
  int root;
  cudaStream_t stream;

  bool is_message() const { return what == What::send || what == What::recv; }
  std::size_t bytes() const { return count * size_of(type); }
  /// "ncclAllReduce", "ncclRecv from rank 1".
  std::string text() const;
};

/// Makes it, or notes it in this thread's open group.
ncclResult_t ask(const Asked& asked) noexcept;

/// Makes one call. Throws Refusal.
void make(Call& call);
/// Makes all of a group; throws the first Refusal when all are over.
void make(std::span<Call> calls);

}  // namespace ccoll::nccl
