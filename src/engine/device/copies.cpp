// SPDX-License-Identifier: Apache-2.0
#include "engine/device/copies.hpp"

#include <algorithm>

namespace ccoll::device {
namespace {

/// What copies have to move on average. An estimate: what a GPU's memory moves in the microseconds
/// that a copy takes before its first byte.
constexpr std::uint64_t kBytesPerCopy = 4 << 20;

std::uint32_t input_of(Rank rank) { return 2 * rank; }
std::uint32_t output_of(Rank rank) { return 2 * rank + 1; }

/// All blocks to the first rank's output, and that to each other's: of n ranks 2n - 1 copies where
/// there are n² from inputs alone, of as many bytes.
std::vector<TeamCopy> all_gather_of(const Problem& problem, std::uint64_t width) {
  std::vector<TeamCopy> copies;
  const Rank size = problem.size;
  std::uint64_t all = 0;
  for (Rank rank = 0; rank < size; ++rank) {
    const std::uint64_t bytes = width * block_elems(problem, size, rank, Buffer::output);
    copies.push_back({input_of(rank), output_of(0), 0, all, bytes});
    all += bytes;
  }
  for (Rank rank = 1; rank < size; ++rank) {
    copies.push_back({output_of(0), output_of(rank), 0, 0, all});
  }
  return copies;
}

std::vector<TeamCopy> all_to_all_of(const Problem& problem, std::uint64_t width) {
  std::vector<TeamCopy> copies;
  const Rank size = problem.size;
  for (Rank to = 0; to < size; ++to) {
    const Problem receiver = view_of(problem, to);
    for (Rank from = 0; from < size; ++from) {
      const Problem sender = view_of(problem, from);
      copies.push_back({input_of(from), output_of(to),
                        width * block_offset(sender, size, to, Buffer::input),
                        width * block_offset(receiver, size, from, Buffer::output),
                        width * block_elems(sender, size, to, Buffer::input)});
    }
  }
  return copies;
}

/// Whether `next` begins where `last` ends, and both can be one copy, which must not read what it
/// writes.
bool can_follow(const PlacedCopy& last, const PlacedCopy& next,
                const std::function<std::uint64_t(const void*)>& bytes_from) {
  if (last.from + last.bytes != next.from || last.to + last.bytes != next.to) return false;
  const std::uint64_t bytes = last.bytes + next.bytes;
  const bool is_apart = last.from + bytes <= last.to || last.to + bytes <= last.from;
  return is_apart && bytes <= bytes_from(last.from) && bytes <= bytes_from(last.to);
}

}  // namespace

std::vector<TeamCopy> copies_of(const Problem& problem, DataType type) {
  std::vector<TeamCopy> copies;
  if (problem.kind == Kind::all_gather) copies = all_gather_of(problem, size_of(type));
  if (problem.kind == Kind::all_to_all) copies = all_to_all_of(problem, size_of(type));
  std::erase_if(copies, [](const TeamCopy& copy) { return copy.bytes == 0; });
  return copies;
}

std::vector<PlacedCopy> place(std::span<const TeamCopy> copies, std::byte* const* buffers,
                              const std::function<std::uint64_t(const void*)>& bytes_from) {
  std::vector<PlacedCopy> placed;
  for (const TeamCopy& copy : copies) {
    const PlacedCopy next{buffers[copy.from] + copy.from_offset, buffers[copy.to] + copy.to_offset,
                          copy.bytes};
    if (next.from == next.to) continue;
    if (!placed.empty() && can_follow(placed.back(), next, bytes_from)) {
      placed.back().bytes += next.bytes;
    } else {
      placed.push_back(next);
    }
  }
  return placed;
}

bool are_wanted(CopyUse use, std::span<const TeamCopy> copies) {
  std::uint64_t bytes = 0;
  for (const TeamCopy& copy : copies) bytes += copy.bytes;
  return use == CopyUse::always ||
         (use == CopyUse::by_size && bytes >= kBytesPerCopy * copies.size());
}

}  // namespace ccoll::device
