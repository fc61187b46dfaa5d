// SPDX-License-Identifier: Apache-2.0
#pragma once

/// fill() and count_wrong() (data.hpp) on GPU memory, a kernel each: no data moves to or from the
/// host. The host provides one period of the pattern, so the checked device never computes the
/// expected values. Shared by host and device code.

#include <cstddef>
#include <cstdint>

#include "kernels/device/layer.hpp"

namespace ccoll::bench {

/// Elements of GPU memory and their expected pattern, from its element `first` on.
struct PatternRun {
  std::byte* data = nullptr;
  std::uint64_t elems = 0;
  std::uint32_t elem_bytes = 1;  ///< 1, 2, 4 or 8, the alignment of `data` and `period`
  std::uint64_t first = 0;
  const std::byte* period = nullptr;  ///< `period_elems` of them
  std::uint32_t period_elems = 1;
  std::uint64_t* wrong = nullptr;  ///< the counting kernel adds to it
};

namespace detail {

template <typename T>
struct PatternElements {
  const PatternRun& run;
  CCOLL_HOST_DEVICE T& data(std::uint64_t i) const { return reinterpret_cast<T*>(run.data)[i]; }
  CCOLL_HOST_DEVICE T expected(std::uint64_t i) const {
    return reinterpret_cast<const T*>(run.period)[(run.first + i) % run.period_elems];
  }
};

/// `visit(PatternElements<an unsigned integer of their size>)`
template <class F>
CCOLL_HOST_DEVICE void with_elements(const PatternRun& run, const F& visit) {
  switch (run.elem_bytes) {
    case 1:
      return visit(PatternElements<std::uint8_t>{run});
    case 2:
      return visit(PatternElements<std::uint16_t>{run});
    case 4:
      return visit(PatternElements<std::uint32_t>{run});
    default:
      return visit(PatternElements<std::uint64_t>{run});
  }
}

template <device::Block B>
struct FillPart {
  const B& block;
  template <typename T>
  CCOLL_HOST_DEVICE void operator()(const PatternElements<T>& elements) const {
    for (std::uint64_t i = block.thread(); i < elements.run.elems; i += block.threads())
      elements.data(i) = elements.expected(i);
  }
};

template <device::Block B>
struct CountPart {
  const B& block;
  template <typename T>
  CCOLL_HOST_DEVICE void operator()(const PatternElements<T>& elements) const {
    std::uint64_t wrong = 0;
    for (std::uint64_t i = block.thread(); i < elements.run.elems; i += block.threads())
      wrong += elements.data(i) != elements.expected(i) ? 1 : 0;
    if (wrong != 0) device::add(elements.run.wrong, wrong);
  }
};

}  // namespace detail

/// One thread's part, without a barrier.
template <device::Block B>
CCOLL_HOST_DEVICE void fill_part(const B& block, const PatternRun& run) {
  detail::with_elements(run, detail::FillPart<B>{block});
}
/// The same, comparing bit for bit.
template <device::Block B>
CCOLL_HOST_DEVICE void count_wrong_part(const B& block, const PatternRun& run) {
  detail::with_elements(run, detail::CountPart<B>{block});
}

/// The kernels, each `void(const PatternRun)`, as cudaLaunchKernel takes them.
const void* fill_kernel();
const void* count_wrong_kernel();

}  // namespace ccoll::bench
