// SPDX-License-Identifier: Apache-2.0
#pragma once

/// fill() and count_wrong() (data.hpp) of memory of a GPU, each a kernel: of the data nothing goes
/// to the host or comes from there. What a pattern is the host says, by one period of it, so that
/// what is right is never computed by what is checked. Shared by host and device code.

#include <cstddef>
#include <cstdint>

#include "kernels/device/layer.hpp"

namespace ccoll::bench {

/// Elements of memory of the GPU, and what they shall be: of a pattern, from its element `first`
/// on.
struct PatternRun {
  std::byte* data = nullptr;
  std::uint64_t elems = 0;
  std::uint32_t elem_bytes = 1;  ///< 1, 2, 4 or 8, by which `data` and `period` are aligned
  std::uint64_t first = 0;
  const std::byte* period = nullptr;  ///< `period_elems` of them
  std::uint32_t period_elems = 1;
  std::uint64_t* wrong = nullptr;  ///< to which the kernel that counts adds
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

/// One thread's part; no barrier.
template <device::Block B>
CCOLL_HOST_DEVICE void fill_part(const B& block, const PatternRun& run) {
  detail::with_elements(run, detail::FillPart<B>{block});
}
/// The same. Bit for bit.
template <device::Block B>
CCOLL_HOST_DEVICE void count_wrong_part(const B& block, const PatternRun& run) {
  detail::with_elements(run, detail::CountPart<B>{block});
}

/// The kernels, each `void(const PatternRun)`, as cudaLaunchKernel takes them.
const void* fill_kernel();
const void* count_wrong_kernel();

}  // namespace ccoll::bench
