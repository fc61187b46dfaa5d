// SPDX-License-Identifier: Apache-2.0
#pragma once

/// all_gather and all_to_all combine nothing: they are copies between ranks' buffers, which a GPU
/// can make while its multiprocessors do something else. Pure; knows no CUDA.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ccoll/types.hpp"
#include "schedule/problem.hpp"

namespace ccoll::device {

/// Which calls of a team are copies, of those that can be.
enum class CopyUse : std::uint8_t { by_size, never, always };

/// From one of a launch's buffers (TeamLaunch) to another.
struct TeamCopy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t from_offset = 0;  ///< in bytes, as are the next two
  std::uint64_t to_offset = 0;
  std::uint64_t bytes = 0;
};

/// What one of a team's GPUs makes of a call, one after another. It copies what lies with it: what
/// crosses to others is written there, as by kernels (TeamChannel).
struct TeamCopies {
  /// Of its ranks' inputs: to the next GPU, then to the one behind that, and last to itself, so
  /// that GPUs which keep pace never send to the same one.
  std::vector<TeamCopy> sent;
  /// From one of its ranks' outputs to the others', when all GPUs have sent.
  std::vector<TeamCopy> spread;
};

/// What a whole problem is as copies, by the GPUs' numbers; none where it is more than that, or
/// there are no bytes. `devices`: by rank, the number of its GPU; empty: all have one.
std::vector<TeamCopies> copies_of(const Problem& problem, DataType type,
                                  std::span<const std::uint32_t> devices = {});

struct PlacedCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t bytes = 0;

  friend bool operator==(const PlacedCopy&, const PlacedCopy&) = default;
};

/// As TeamCopies has them.
struct PlacedCopies {
  std::vector<PlacedCopy> sent;
  std::vector<PlacedCopy> spread;

  bool are_none() const { return sent.empty() && spread.empty(); }
};

/// The same where the buffers lie, without what is in its place already, and those that follow one
/// another on both sides as one. `bytes_from`: how many bytes from there on one copy may have.
PlacedCopies place(const TeamCopies& copies, std::byte* const* buffers,
                   const std::function<std::uint64_t(const void*)>& bytes_from);

/// Whether a call is to be made by them: where it is `by_size`, if they are large enough.
bool are_wanted(CopyUse use, std::span<const TeamCopies> copies);

}  // namespace ccoll::device
