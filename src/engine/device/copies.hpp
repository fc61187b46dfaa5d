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

/// What a whole problem is as copies, to be made one after another; none where it is more than
/// that, or there are no bytes.
std::vector<TeamCopy> copies_of(const Problem& problem, DataType type);

struct PlacedCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t bytes = 0;

  friend bool operator==(const PlacedCopy&, const PlacedCopy&) = default;
};

/// The same where the buffers lie, without what is in its place already, and those that follow one
/// another on both sides as one. `bytes_from`: how many bytes from there on one copy may have.
std::vector<PlacedCopy> place(std::span<const TeamCopy> copies, std::byte* const* buffers,
                              const std::function<std::uint64_t(const void*)>& bytes_from);

/// Whether a call is to be made by them: where it is `by_size`, if they are large enough.
bool are_wanted(CopyUse use, std::span<const TeamCopy> copies);

}  // namespace ccoll::device
