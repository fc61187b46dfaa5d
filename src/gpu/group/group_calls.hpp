// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a rank of a group (stream_group.hpp) puts calls into its streams: as stream steps
/// (step_calls.cpp), or as the team kernel (kernel_calls.cpp). The group decides which calls there
/// are, in which order they take place and how they end. Knows CUDA's streams by name only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/result.hpp"
#include "gpu/group/shared_group.hpp"
#include "gpu/program/lower.hpp"

struct CUstream_st;

namespace ccoll::device {

/// A program as it is loaded for one rank.
struct GroupProgram {
  virtual ~GroupProgram() = default;
};

struct GroupCall {
  const GroupProgram& program;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  CUstream_st* stream = nullptr;
  bool is_captured = false;
};

/// Works on the rank's GPU, which must be the current one. One thread at a time may call, except
/// for the queries.
class GroupCalls {
 public:
  virtual ~GroupCalls() = default;
  /// The program stays as long as this does.
  virtual Result<const GroupProgram*> load(const LoweredTeam& lowered) = 0;
  virtual Status put(const GroupCall& call) = 0;
  /// Where this rank's stream is, if `last` was called last.
  virtual std::string standing(const GroupProgram& last) const = 0;
  /// See StreamGroup.
  virtual std::uint64_t slot_bytes() const = 0;
  /// The GPU's memory beside what ranks share, in bytes.
  virtual std::uint64_t held_bytes() const { return 0; }
};

/// The fewest blocks that each rank of a group by kernels may have; with fewer there is no group.
/// Programs of one lane have no more, with any algorithm for ranks of one host.
inline constexpr std::uint32_t kFewestGroupBlocks = 4;

/// All ranks call it together; `shared` must outlive it.
Result<std::unique_ptr<GroupCalls>> make_step_calls(const StreamGroupOptions& options,
                                                    const SharedGroup& shared, Exchange& exchange,
                                                    Exchange::TimePoint deadline);
/// The same, and it tries out the kernels. `unsupported` if they do not work for some rank, or its
/// GPU has no room for more (block_budget.hpp).
Result<std::unique_ptr<GroupCalls>> make_kernel_calls(const StreamGroupOptions& options,
                                                      const SharedGroup& shared, Exchange& exchange,
                                                      Exchange::TimePoint deadline);
/// The bytes of the GPU's shared memory that kernel calls need beside the programs' workspace.
std::uint64_t kernel_calls_bytes();

}  // namespace ccoll::device
