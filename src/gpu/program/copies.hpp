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

/// Which of a team's calls are made by copies, if they can be.
enum class CopyUse : std::uint8_t { by_size, never, always };

/// A copy from one of a launch's buffers (TeamLaunch) to another.
struct TeamCopy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t from_offset = 0;  ///< in bytes, as are the next two
  std::uint64_t to_offset = 0;
  std::uint64_t bytes = 0;
};

/// The copies that one of a team's GPUs makes in a call, one after another. A GPU copies from its
/// own memory and writes to others, as kernels do (TeamChannel).
struct TeamCopies {
  /// Copies of its ranks' inputs: to the next GPU, then to the one behind that, and last to itself.
  /// So GPUs that keep pace never send to the same one.
  std::vector<TeamCopy> sent;
  /// Copies from one of its ranks' outputs to the others', made when all GPUs have sent.
  std::vector<TeamCopy> spread;
};

/// A whole problem as copies, by the GPUs' numbers; empty if it needs more than copies, or has no
/// bytes. `devices`: by rank, the number of its GPU; empty: all have one.
std::vector<TeamCopies> copies_of(const Problem& problem, DataType type,
                                  std::span<const std::uint32_t> devices = {});

struct PlacedCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t bytes = 0;

  friend bool operator==(const PlacedCopy&, const PlacedCopy&) = default;
};

/// The same lists as in TeamCopies.
struct PlacedCopies {
  std::vector<PlacedCopy> sent;
  std::vector<PlacedCopy> spread;

  bool is_empty() const { return sent.empty() && spread.empty(); }
};

/// The copies with addresses. Omits data that is in place already; joins neighbours that are
/// contiguous on both sides. `bytes_from`: the most bytes that a copy from an address may have.
PlacedCopies place(const TeamCopies& copies, std::byte* const* buffers,
                   const std::function<std::uint64_t(const void*)>& bytes_from);

/// Whether copies are to make the call; for `by_size`: whether they are large enough.
bool are_wanted(CopyUse use, std::span<const TeamCopies> copies);

}  // namespace ccoll::device
