// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One call of device::combine, checked bit by bit against the host's kernel, with sentinels around
/// the output.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "../inputs.hpp"
#include "kernels/combine.hpp"
#include "kernels/device/combine.hpp"
#include "support/differences.hpp"

namespace ccoll::testing {

/// The relative alignment of a call's addresses.
enum class Alignment : std::uint8_t { whole_words, alike, by_element, any };
inline constexpr Alignment kAlignments[] = {Alignment::whole_words, Alignment::alike,
                                            Alignment::by_element, Alignment::any};

struct Shape {
  ReduceOp op;
  std::size_t elems;
  std::size_t source_count;
  Alignment alignment;
};

template <typename T>
class Trial {
 public:
  Trial(const Shape& shape, std::mt19937_64& random) : shape_(shape) {
    // One in three is in place.
    in_place_ = random() % 3 == 0 ? random() % shape.source_count : shape.source_count;
    if (shape.op == ReduceOp::avg && random() % 3 != 0) {
      divisor_ = 1 + static_cast<std::uint32_t>(random() % 300);
    }
    const std::size_t common = offset(random);
    for (std::size_t s = 0; s <= shape.source_count; ++s) {
      const bool alike = shape.alignment <= Alignment::alike;
      buffers_.emplace_back(shape.elems, alike ? common : offset(random));
      for (std::size_t i = 0; i < shape.elems; ++i) buffers_[s].set(i, random_element<T>(random));
    }
    before_ = buffers_;
    for (Guarded<T>& buffer : buffers_) pointers_.push_back(buffer.data());
  }

  /// Must be called by every thread of a block.
  template <device::Block B>
  void run(const B& block) {
    device::combine(block, data_type_of<T>, shape_.op,
                    {pointers_.data(), static_cast<std::uint32_t>(shape_.source_count),
                     buffers_[in_place_].data(), shape_.elems * sizeof(T), divisor_});
  }

  // For tests that run it where these buffers are unreachable: the last one is no source.
  const Shape& shape() const { return shape_; }
  std::vector<Guarded<T>>& buffers() { return buffers_; }
  std::size_t out() const { return in_place_; }
  std::uint32_t divisor() const { return divisor_; }

  /// Returns "" if nothing is wrong.
  std::string what_is_wrong() {
    std::vector<Guarded<T>> expected = before_;
    std::vector<const std::byte*> sources;
    for (std::size_t s = 0; s < shape_.source_count; ++s) sources.push_back(expected[s].data());
    find_combine(data_type_of<T>, shape_.op)(sources.data(), sources.size(),
                                             expected[in_place_].data(), shape_.elems, divisor_);
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      // Includes the sentinels.
      if (!(buffers_[b] == expected[b])) return describe(b, expected[b]);
    }
    return "";
  }

 private:
  std::size_t offset(std::mt19937_64& random) const {
    switch (shape_.alignment) {
      case Alignment::whole_words:
        return 0;
      case Alignment::any:
        return random() % 16;
      default:
        return random() % 16 / sizeof(T) * sizeof(T);
    }
  }

  std::string describe(std::size_t buffer, Guarded<T>& expected) {
    std::ostringstream text;
    text << to_string(data_type_of<T>) << " " << to_string(shape_.op) << ", " << shape_.elems
         << " elements of " << shape_.source_count << " sources, divisor " << divisor_ << ": "
         << (buffer == in_place_ ? "the output" : "a source") << " differs (";
    for (const std::byte* pointer : pointers_) {
      text << reinterpret_cast<std::uintptr_t>(pointer) % 16 << " ";
    }
    text << "bytes into a word); "
         << differences(buffers_[buffer].bytes(), expected.bytes(), [&](std::size_t at) {
              const std::ptrdiff_t byte =
                  static_cast<std::ptrdiff_t>(at) - static_cast<std::ptrdiff_t>(expected.offset());
              return fmt::format("byte {} of {} elements of {}", byte, shape_.elems, sizeof(T));
            });
    return text.str();
  }

  Shape shape_;
  std::size_t in_place_ = 0;  ///< the buffer that is the output; the last is no source
  std::uint32_t divisor_ = 1;
  std::vector<Guarded<T>> buffers_;
  std::vector<Guarded<T>> before_;
  std::vector<const std::byte*> pointers_;
};

}  // namespace ccoll::testing
