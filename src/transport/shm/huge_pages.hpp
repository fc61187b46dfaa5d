// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of this process that is lent again and again to be read where it lies, put together to
/// huge pages. Who reads it out of this process (single_copy.hpp) has the kernel find and hold it
/// page by page, which takes two to three times as long as to copy them; a huge page is held at
/// once. Who has mapped it (lending.hpp) goes through fewer entries of page tables. What is asked
/// of the kernel is madvise(2)'s MADV_COLLAPSE, since Linux 6.1: the same bytes at the same
/// addresses, in other pages. It is not asked where the administrator has turned such pages off.

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace ccoll::shm {

/// Thread-safe: it counts for all links of a rank.
class HugePages {
 public:
  /// `wanted`: false, and nothing is ever asked of the kernel.
  explicit HugePages(bool wanted);

  /// So many bytes from `data` on are about to be lent. Once that has been done so often that it
  /// pays, this call takes the time for it: half a millisecond for 2 MiB.
  void lend(const std::byte* data, std::size_t bytes);

  /// Of a huge page; 0 where there are none to be had.
  std::size_t page_bytes() const { return page_bytes_; }

  /// How often its bytes are lent before a page is made of them. To make it costs about five times
  /// what it saves each time that it is read.
  static constexpr std::uint64_t kPaysOff = 8;

 private:
  /// Memory that would be one huge page.
  struct Block {
    std::uintptr_t number = 0;  ///< its address in such pages
    std::uint64_t lent = 0;     ///< bytes
    std::uint64_t until = 0;    ///< so many are lent and it is tried; again after twice as many,
                                ///< for the pages may be others by then, or in use just now
  };
  static constexpr std::size_t kBlocks = 512;

  /// True where that has to be tried now.
  bool count(std::uintptr_t number, std::size_t bytes);
  void collapse(std::uintptr_t number) const;

  const std::size_t page_bytes_;
  std::mutex mutex_;
  std::array<Block, kBlocks> blocks_{};  // guarded by mutex_; by number, the last that came there
};

}  // namespace ccoll::shm
