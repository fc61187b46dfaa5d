// SPDX-License-Identifier: Apache-2.0
#include "engine/custom_fold.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>

namespace ccoll {

bool CustomFold::operator()(const Reduction::Custom& custom, const std::byte* const* sources,
                            std::size_t source_count, std::byte* out, std::size_t elems) {
  const std::size_t chunk = kChunkBytes / elem_bytes_;
  for (std::size_t first = 0; first < elems; first += chunk) {
    const std::size_t count = std::min(chunk, elems - first);
    const std::size_t at = first * elem_bytes_;
    std::memcpy(accumulated_, sources[source_count - 1] + at, count * elem_bytes_);
    for (std::size_t s = source_count - 1; s-- > 0;)
      if (!call(custom, sources[s] + at, count)) return false;
    std::memcpy(out + at, accumulated_, count * elem_bytes_);
  }
  return true;
}

bool CustomFold::call(const Reduction::Custom& custom, const std::byte* in, std::size_t elems) {
  if (thrown_) return false;
  if (reinterpret_cast<std::uintptr_t>(in) % elem_bytes_ != 0) {
    std::memcpy(operand_, in, elems * elem_bytes_);
    in = operand_;
  }
  try {
    custom.function(in, accumulated_, elems, type_);
    return true;
  } catch (const std::exception& error) {
    thrown_ = error.what();
  } catch (...) {
    thrown_ = "something that is no std::exception";
  }
  return false;
}

}  // namespace ccoll
