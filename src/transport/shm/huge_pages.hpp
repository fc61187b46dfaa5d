// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Collapses memory that is lent repeatedly, to be read in place, into huge pages. A reader in
/// another process (single_copy.hpp) makes the kernel pin it page by page, which takes two to three
/// times as long as the copy. A huge page is pinned at once. A reader that has mapped it
/// (lending.hpp) needs fewer page-table entries. Uses madvise(2)'s MADV_COLLAPSE, since Linux 6.1:
/// same bytes and addresses, other pages. Does nothing if the administrator has turned such pages
/// off.

#include <array>
#include <cstddef>
#include <cstdint>

#include "system/locks.hpp"

namespace ccoll::shm {

/// Thread-safe; counts for all links of a rank.
class HugePages {
 public:
  /// `wanted`: if false, it does nothing.
  explicit HugePages(bool wanted);

  /// Counts a loan of `bytes` from `data`. Once they are lent often enough to pay, this call
  /// collapses their pages: half a millisecond for 2 MiB.
  void lend(const std::byte* data, std::size_t bytes);

  /// Size of a huge page; 0 if there are none.
  std::size_t page_bytes() const { return page_bytes_; }

  /// Number of loans before a page is collapsed: that costs about five times the saving of one
  /// read.
  static constexpr std::uint64_t kPaysOff = 8;

 private:
  /// Memory of the size and alignment of one huge page.
  struct Block {
    std::uintptr_t number = 0;  ///< its address / page_bytes_
    std::uint64_t lent = 0;     ///< bytes
    std::uint64_t until = 0;    ///< value of `lent` for the next try; doubles each time, because
                                ///< later the pages may be others, or not in use
  };
  static constexpr std::size_t kBlocks = 512;

  /// Counts the loan; true if the block must be collapsed.
  bool count(std::uintptr_t number, std::size_t bytes);
  void collapse(std::uintptr_t number) const;

  const std::size_t page_bytes_;
  Guarded<std::array<Block, kBlocks>> blocks_;  ///< by number, the latest there
};

}  // namespace ccoll::shm
