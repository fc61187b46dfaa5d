// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Places in memory that several users share.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace ccoll::device {

/// Blocks of a memory, returned in any order. If it is full, the caller has to do without.
class Blocks {
 public:
  explicit Blocks(std::uint64_t bytes) : bytes_(bytes) {}

  /// Where `bytes` bytes are free; empty if there is no such gap.
  std::optional<std::uint64_t> find(std::uint64_t bytes) const {
    std::uint64_t begin = 0;
    for (const Block& each : taken_) {
      if (each.begin - begin >= bytes) return begin;
      begin = each.end;
    }
    return bytes_ - begin >= bytes ? std::optional(begin) : std::nullopt;
  }
  /// Takes a place that find() has returned.
  void take(std::uint64_t begin, std::uint64_t bytes) {
    taken_.insert(std::ranges::lower_bound(taken_, begin, {}, &Block::begin),
                  {begin, begin + bytes});
  }
  void give_back(std::uint64_t begin) noexcept {
    taken_.erase(std::ranges::lower_bound(taken_, begin, {}, &Block::begin));
  }

 private:
  struct Block {
    std::uint64_t begin;
    std::uint64_t end;
  };
  const std::uint64_t bytes_;
  std::vector<Block> taken_;  ///< in order
};

}  // namespace ccoll::device
