// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The arguments that the host hands to the kernel that combines, that kernel's first steps, and
/// where each family's kernel is. No CUDA header is used: both compilers read this.

#include <cstddef>
#include <cstdint>

#include "ccoll/types.hpp"
#include "kernels/device/layer.hpp"
#include "kernels/device/loans.hpp"

namespace ccoll::device {

/// The most sources of one launch: their addresses travel in the kernel's arguments.
inline constexpr std::size_t kMostSources = 64;

/// The most threads of a block of these kernels, among which registers are shared out.
inline constexpr std::uint32_t kMostThreads = 512;

/// Words that a lender says for each of its two buffers: said_of_loan(), then where in that memory
/// the buffer begins, the lower and the upper half.
inline constexpr std::uint32_t kLoanWords = 4;

/// Where a launch finds what is lent to it; all is in host memory.
struct LaunchLoans {
  const std::uint32_t* said = nullptr;  ///< lender 0's, for its first buffer
  std::uint32_t stride = 0;             ///< words from one lender's to the next one's
  const LoanPlace* places = nullptr;    ///< lender 0's, then kLoanPlaces for each next
};

/// Words of host memory, as the device sees it, by which a launch is watched.
struct LaunchWords {
  const std::uint32_t* abort = nullptr;  ///< null: none; if it is not 0, nothing is done
  std::uint32_t* begun = nullptr;        ///< null: none; else `number` is stored there
  std::uint32_t number = 0;
  LaunchLoans loans = {};
};

inline constexpr std::uint16_t kNobody = UINT16_MAX;

/// A source that its owner may lend, which is known only when the launch runs. If lent, it is at
/// that place of the owner's buffer, else where the launch says.
struct LentSource {
  std::uint64_t offset = 0;
  std::uint16_t lender = kNobody;
  std::uint8_t buffer = 0;
  bool if_separate = false;  ///< only if the lender's buffers are apart
};

struct CombineArguments {
  const std::byte* sources[kMostSources] = {};
  LentSource lent[kMostSources] = {};
  std::byte* out = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t source_count = 0;
  std::uint32_t divisor = 1;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  LaunchWords words;
};

/// Whether to go on. One thread of each block calls it; one of these is the launch's `first`.
CCOLL_HOST_DEVICE inline bool begin(const LaunchWords& words, bool first) {
  if (words.abort != nullptr && load_relaxed(words.abort) != 0) return false;
  if (first && words.begun != nullptr) store_relaxed(words.begun, words.number);
  return true;
}

/// Where source `i` lies. Null for memory that its owner has taken back meanwhile, which it must
/// not do: so the launch fails rather than read something else.
CCOLL_HOST_DEVICE inline const std::byte* source_of(const CombineArguments& arguments,
                                                    std::uint32_t i) {
  const LentSource& lent = arguments.lent[i];
  if (lent.lender == kNobody) return arguments.sources[i];
  const LaunchLoans& loans = arguments.words.loans;
  const std::uint32_t* const said =
      loans.said + lent.lender * loans.stride + lent.buffer * kLoanWords;
  const std::uint32_t first = load_relaxed(said);
  if (!is_lent(first, lent.if_separate)) return arguments.sources[i];
  const std::uint64_t memory = find_loan(loans.places + lent.lender * kLoanPlaces, first);
  if (memory == 0) return nullptr;
  const std::uint64_t begin = load_relaxed(said + 1) | std::uint64_t{load_relaxed(said + 2)} << 32;
  return reinterpret_cast<const std::byte*>(memory + begin + lent.offset);
}

/// The kernels, each `void(const CombineArguments)`, as cudaLaunchKernel takes them. Each family
/// has a file: they compile side by side.
const void* combine_kernel_of_bits();
const void* combine_kernel_of_floats();
const void* combine_kernel_of_integers();
const void* combine_kernel_of_small_floats();

}  // namespace ccoll::device
