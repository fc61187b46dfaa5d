// SPDX-License-Identifier: Apache-2.0
#include "kernels/stream.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/stream.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ccoll::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void StreamCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d), at_once = 4 * lanes;
  // These are whole cache lines, or the CPU has to read what it would only overwrite.
  constexpr std::uintptr_t kLine = 64;
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + at_once <= bytes; at += at_once) {
    const auto* source = reinterpret_cast<const std::uint8_t*>(from + at);
    auto* target = reinterpret_cast<std::uint8_t*>(to + at);
    const auto v0 = hn::LoadU(d, source);
    const auto v1 = hn::LoadU(d, source + lanes);
    const auto v2 = hn::LoadU(d, source + 2 * lanes);
    const auto v3 = hn::LoadU(d, source + 3 * lanes);
    hn::Stream(v0, d, target);
    hn::Stream(v1, d, target + lanes);
    hn::Stream(v2, d, target + 2 * lanes);
    hn::Stream(v3, d, target + 3 * lanes);
  }
  std::memcpy(to + at, from + at, bytes - at);
  hwy::FlushStream();
}

}  // namespace ccoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ccoll {

HWY_EXPORT(StreamCopy);

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(StreamCopy)(to, from, bytes);
}

}  // namespace ccoll
#endif
