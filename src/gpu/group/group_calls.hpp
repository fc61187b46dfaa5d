// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a rank of a group (stream_group.hpp) puts into its streams as a call: stream steps
/// (step_calls.cpp), or the team kernel (kernel_calls.cpp). Which calls there are, in which order
/// they take place and how they end is the group's affair. Knows CUDA's streams by name only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/result.hpp"
#include "gpu/group/shared_group.hpp"
#include "gpu/program/lower.hpp"

struct CUstream_st;

namespace ccoll::device {

/// What has been made of a program for a rank.
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

/// On the rank's GPU, which is the current one in all of this; by one thread at a time, but for
/// what is asked of it.
class GroupCalls {
 public:
  virtual ~GroupCalls() = default;
  /// Stays as long as this does.
  virtual Result<const GroupProgram*> load(const LoweredTeam& lowered) = 0;
  virtual Status put(const GroupCall& call) = 0;
  /// Where this rank's stream is, if `last` was called last.
  virtual std::string standing(const GroupProgram& last) const = 0;
  /// See StreamGroup.
  virtual std::uint64_t slot_bytes() const = 0;
  /// Of the GPU's memory, beside what ranks share.
  virtual std::uint64_t held_bytes() const { return 0; }
};

/// So many blocks a rank of a group by kernels may have at least, or there is none: programs of one
/// lane have no more, of whatever algorithm for ranks of one host.
inline constexpr std::uint32_t kFewestGroupBlocks = 4;

/// By all ranks together; `shared` must outlive it.
Result<std::unique_ptr<GroupCalls>> make_step_calls(const StreamGroupOptions& options,
                                                    const SharedGroup& shared, Exchange& exchange,
                                                    Exchange::TimePoint deadline);
/// The same, and the kernels are tried out. `unsupported` where they do not work for some rank, or
/// its GPU has no room for more (block_budget.hpp).
Result<std::unique_ptr<GroupCalls>> make_kernel_calls(const StreamGroupOptions& options,
                                                      const SharedGroup& shared, Exchange& exchange,
                                                      Exchange::TimePoint deadline);
/// What those need of the GPU's memory that ranks share, beside the programs' workspace.
std::uint64_t kernel_calls_bytes();

}  // namespace ccoll::device
