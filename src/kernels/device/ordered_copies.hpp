// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Copies by a launch that is in a stream, or a graph, before anybody knows what to copy. The host
/// writes that down, then lets the stream go on, and the launch finds it. Shared by host and device
/// code.

#include <cstdint>

#include "kernels/device/combine.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {

struct OrderedCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t bytes = 0;
};

/// Lies in host memory. Addresses are the device's.
struct CopyOrder {
  static constexpr std::uint32_t kMost = 32;
  std::uint32_t number = 0;  ///< of the launch that makes them: no other does anything
  std::uint32_t count = 0;
  OrderedCopy copies[kMost] = {};
};

/// An order as the threads of a block have taken it.
struct TakenOrder {
  std::uint32_t count = 0;
  OrderedCopy copies[CopyOrder::kMost] = {};
};

/// All threads of each block call it; `taken` is in memory that they share. It ends with a barrier.
template <Block B>
CCOLL_HOST_DEVICE void take_order(const B& block, const CopyOrder* order, std::uint32_t number,
                                  TakenOrder& taken) {
  if (block.thread() == 0) {
    taken.count = load_acquire(&order->number) == number ? load_relaxed(&order->count) : 0;
  }
  block.barrier();
  for (std::uint32_t i = block.thread(); i < taken.count; i += block.threads()) {
    const auto* const words = reinterpret_cast<const std::uint64_t*>(&order->copies[i]);
    taken.copies[i] = {reinterpret_cast<const std::byte*>(load_relaxed(words)),
                       reinterpret_cast<std::byte*>(load_relaxed(words + 1)),
                       load_relaxed(words + 2)};
  }
  block.barrier();
}

/// All threads of all blocks call it, as one.
template <Block G>
CCOLL_HOST_DEVICE void make_copies(const G& grid, const TakenOrder& taken) {
  for (std::uint32_t i = 0; i < taken.count; ++i) {
    copy(grid, taken.copies[i].from, taken.copies[i].to, taken.copies[i].bytes);
  }
}

/// `void(const CopyOrder*, std::uint32_t number)`, as cudaLaunchKernel takes it.
const void* ordered_copies_kernel();

}  // namespace ccoll::device
