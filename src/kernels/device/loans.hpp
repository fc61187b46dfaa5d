// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a kernel finds memory that another rank lends it: the lender says which of its memories, by
/// a number, and the reader's own host where it has mapped that. No CUDA header: both compilers
/// read it.

#include <cstdint>

#include "kernels/device/layer.hpp"

namespace ccoll::device {

/// How many memories of one lender a reader has mapped at most, at a time.
inline constexpr std::uint32_t kLoanPlaces = 64;

/// A memory that a reader has mapped, at its number % kLoanPlaces. Its host writes it before it
/// tells the lender that it may lend, and clears it when that takes the memory back.
struct LoanPlace {
  std::uint64_t number = 0;  ///< no two of a lender are the same, also one after the other
  std::uint64_t address = 0;
};

/// What a lender says of one of its two buffers: twice the memory's number, and 1 more where the
/// buffers are not apart; 0: nothing of it is lent.
CCOLL_HOST_DEVICE constexpr std::uint32_t said_of_loan(std::uint32_t number, bool are_apart) {
  return 2 * number + (are_apart ? 0 : 1);
}

/// `if_separate`: what may be lent only where the buffers are apart.
CCOLL_HOST_DEVICE constexpr bool is_lent(std::uint32_t said, bool if_separate) {
  return said != 0 && !(if_separate && said % 2 != 0);
}

/// Where the memory is that was said, of those of its lender; 0: its owner has taken it back, which
/// it must not have.
CCOLL_HOST_DEVICE inline std::uint64_t find_loan(const LoanPlace* places, std::uint32_t said) {
  const std::uint32_t number = said / 2;
  const LoanPlace& place = places[number % kLoanPlaces];
  // Both are on their way at once.
  const std::uint64_t there = load_relaxed(&place.number);
  const std::uint64_t address = load_relaxed(&place.address);
  return there == number ? address : 0;
}

}  // namespace ccoll::device
