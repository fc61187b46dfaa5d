// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A buffer as callers may have it: its elements lie in stretches and rows with gaps between them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "engine/buffer_view.hpp"

namespace ccoll::test {

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

inline std::shared_ptr<std::byte> host_memory(std::size_t bytes) {
  return {new std::byte[bytes], std::default_delete<std::byte[]>()};
}

/// `elems` elements of `width` bytes each, which have random bytes at first, as the gaps do. They
/// lie in memory that `allocate` makes, which the CPU can touch.
class Scattered {
 public:
  Scattered(std::size_t elems, std::size_t width, std::mt19937_64& random,
            std::shared_ptr<std::byte> (*allocate)(std::size_t bytes) = &host_memory)
      : width_(width) {
    const bool in_one = random() % 4 == 0;
    std::vector<Part> parts;
    std::size_t end = random() % 9;
    while (places_.size() < elems) {
      Part next{.first = places_.size(), .at = end, .row = elems - places_.size()};
      if (!in_one) next.shape(random);
      parts.push_back(next);
      for (std::size_t i = 0; i < next.row * next.rows; i++)
        places_.push_back(next.at + (i / next.row * next.stride + i % next.row) * width);
      end = places_.back() + (1 + random() % 3) * width;
    }
    before_ = random_bytes(end + 8, random);
    memory_ = allocate(before_.size());
    std::ranges::copy(before_, memory_.get());
    view_of(parts);
  }
  Scattered(const Scattered&) = delete;
  Scattered& operator=(const Scattered&) = delete;

  const BufferView& view() const { return view_; }
  /// Where each element is.
  std::vector<std::byte*> places() const {
    std::vector<std::byte*> places;
    for (const auto place : places_) places.push_back(memory_.get() + place);
    return places;
  }
  /// The elements, one after another.
  Bytes elements() const {
    Bytes all(places_.size() * width_);
    for (std::size_t i = 0; i < places_.size(); i++)
      std::memcpy(all.data() + i * width_, memory_.get() + places_[i], width_);
    return all;
  }
  void set(const Bytes& elements) {
    for (std::size_t i = 0; i < places_.size(); i++)
      std::memcpy(memory_.get() + places_[i], elements.data() + i * width_, width_);
  }
  /// Whether nothing but the elements has changed.
  bool gaps_are_whole() const {
    auto expected = before_;
    for (const auto place : places_)
      std::memcpy(expected.data() + place, memory_.get() + place, width_);
    return std::ranges::equal(expected, std::span(memory_.get(), expected.size()));
  }

 private:
  struct Part {
    std::size_t first, at, row, rows = 1, stride = 0;

    /// Leaves some of the `row` elements to others, and has rows among the rest, if it likes.
    void shape(std::mt19937_64& random) {
      row = std::min<std::size_t>(row, 1 + random() % 20);
      if (random() % 2 == 0) return;
      rows = 1 + random() % row;
      row /= rows;
      stride = row + 1 + random() % 5;
    }
  };

  void view_of(const std::vector<Part>& parts) {
    view_.data = memory_.get() + (parts.empty() ? 0 : parts.front().at);
    if (parts.size() == 1 && parts.front().stride == 0) return;
    for (const auto& [first, at, row, rows, stride] : parts)
      view_.segments.push_back({first, memory_.get() + at, stride > 0 ? row : 0, stride});
  }

  const std::size_t width_;
  std::vector<std::size_t> places_;  ///< of each element in the memory
  Bytes before_;
  std::shared_ptr<std::byte> memory_;
  BufferView view_;
};

}  // namespace ccoll::test
