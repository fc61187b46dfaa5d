// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a kernel finds memory that another rank lends it. The lender says by a number which of its
/// memories it is, and the reader's own host says where it has mapped that. No CUDA header is used:
/// both compilers read this.

#include <cstdint>

#include "kernels/device/layer.hpp"

namespace ccoll::device {

/// The most memories of one lender that a reader has mapped at a time.
inline constexpr std::uint32_t kLoanPlaces = 64;

/// A memory that a reader has mapped, at its number % kLoanPlaces. The reader's host writes it
/// before it lets the lender lend, and clears it when the lender takes the memory back.
struct LoanPlace {
  std::uint64_t number = 0;  ///< unique among all that its lender ever lends
  std::uint64_t address = 0;
};

/// The word of a lender for one of its two buffers: twice the memory's number, and 1 more if the
/// buffers are not apart; 0: nothing of it is lent.
CCOLL_HOST_DEVICE constexpr std::uint32_t said_of_loan(std::uint32_t number, bool are_apart) {
  return 2 * number + (are_apart ? 0 : 1);
}

/// `if_separate`: whether it may be lent only if the buffers are apart.
CCOLL_HOST_DEVICE constexpr bool is_lent(std::uint32_t said, bool if_separate) {
  return said != 0 && !(if_separate && said % 2 != 0);
}

/// The address of the memory that was said, among those of its lender; 0: its owner has taken it
/// back, which it must not do.
CCOLL_HOST_DEVICE inline std::uint64_t find_loan(const LoanPlace* places, std::uint32_t said) {
  const std::uint32_t number = said / 2;
  const LoanPlace& place = places[number % kLoanPlaces];
  // Both loads are in flight at once.
  const std::uint64_t there = load_relaxed(&place.number);
  const std::uint64_t address = load_relaxed(&place.address);
  return there == number ? address : 0;
}

}  // namespace ccoll::device
