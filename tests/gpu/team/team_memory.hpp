// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory of all ranks of a team for a call.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/differences.hpp"
#include "support/gpu/team_on_host.hpp"
#include "team_case.hpp"

namespace ccoll::test {

/// Enough for every case.
inline constexpr std::uint32_t kMostBlocks = 512;
inline constexpr std::uint32_t kMostFlags = 8192;

/// All ranks' inputs and outputs at odd addresses, with guards around them.
class TeamMemory {
 public:
  TeamMemory(const TeamCase& of, std::mt19937_64& random) : of_(of) {
    for (Rank rank = 0; rank < of.problem.size; rank++) {
      const std::uint64_t input = bytes_of(rank, Buffer::input);
      const std::uint64_t output = bytes_of(rank, Buffer::output);
      Places& place = places_.emplace_back();
      place.output = kGuard + random() % 32;
      place.input = place.output + output + kGuard + random() % 32;
      if (of.in_place[rank]) {
        place.input = place.output = kGuard + random() % 32;
        const std::uint64_t own = elem_bytes() * block_offset(view(rank), of.problem.size, rank);
        if (holds_own_block_only(of.problem.kind, Buffer::input)) place.input += own;
        if (holds_own_block_only(of.problem.kind, Buffer::output)) place.output += own;
      }
      memory_.emplace_back(std::max(place.input + input, place.output + output) + kGuard);
      for (auto& byte : memory_.back()) byte = static_cast<std::byte>(random());
    }
  }

  std::vector<testing::TeamOnHost::Buffers> buffers() {
    std::vector<testing::TeamOnHost::Buffers> all;
    for (Rank rank = 0; rank < memory_.size(); rank++) all.push_back({input(rank), output(rank)});
    return all;
  }
  std::byte* input(Rank rank) { return memory_[rank].data() + places_[rank].input; }
  std::byte* output(Rank rank) { return memory_[rank].data() + places_[rank].output; }
  /// The part of a rank's buffer that a call reads or writes.
  std::span<std::byte> buffer(Rank rank, Buffer which) {
    return {which == Buffer::input ? input(rank) : output(rank), bytes_of(rank, which)};
  }
  /// All memory of a rank, with the guards.
  std::span<std::byte> all(Rank rank) { return memory_[rank]; }
  Problem view(Rank rank) const { return view_of(of_.problem, rank); }
  std::size_t elem_bytes() const { return size_of(of_.type); }

  /// Describes the first bytes of a rank's memory that differ; empty if none does.
  std::string differences(TeamMemory& expected, Rank rank) {
    const auto wrong = testing::differences(all(rank), expected.all(rank),
                                            [&](std::size_t at) { return place(rank, at); });
    return wrong.empty() ? "" : fmt::format("rank {}: {}", rank, wrong);
  }
  /// The same for all ranks.
  std::string differences(TeamMemory& expected) {
    std::string text;
    for (Rank rank = 0; rank < memory_.size(); rank++) {
      const auto wrong = differences(expected, rank);
      text += (text.empty() || wrong.empty() ? "" : "; ") + wrong;
    }
    return text;
  }

  /// Compares guards and inputs, too.
  friend bool operator==(const TeamMemory& a, const TeamMemory& b) {
    return a.memory_ == b.memory_;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  struct Places {
    std::size_t input = 0;
    std::size_t output = 0;
  };

  std::uint64_t bytes_of(Rank rank, Buffer buffer) const {
    const Problem seen = view(rank);
    if (holds_own_block_only(seen.kind, buffer))
      return elem_bytes() * block_elems(seen, seen.size, rank, buffer);
    return elem_bytes() * (block_offset(seen, seen.size, seen.size - 1, buffer) +
                           block_elems(seen, seen.size, seen.size - 1, buffer));
  }

  /// Names a byte of a rank's memory.
  std::string place(Rank rank, std::size_t at) const {
    for (const Buffer which : {Buffer::output, Buffer::input}) {
      const std::size_t begin =
          which == Buffer::output ? places_[rank].output : places_[rank].input;
      if (at >= begin && at < begin + bytes_of(rank, which))
        return fmt::format("element {} of its {}, byte {}", (at - begin) / elem_bytes(),
                           which == Buffer::output ? "output" : "input",
                           (at - begin) % elem_bytes());
    }
    return fmt::format("byte {}, of neither buffer", at);
  }

  TeamCase of_;
  std::vector<Places> places_;
  std::vector<std::vector<std::byte>> memory_;
};

}  // namespace ccoll::test
