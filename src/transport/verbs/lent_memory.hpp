// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The sender's memory that the device reads where it lies: what has been announced, of which each
/// part is lent once and in order, and until when the device reads. Knows no device.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace ccoll::verbs {

class Registration;

class LentMemory {
 public:
  using Memory = std::shared_ptr<const Registration>;

  /// The next slices will come from there. `memory`: its registration, kept until all is drained.
  void announce(Memory memory, const std::byte* data, std::size_t bytes) {
    announced_.push_back({std::move(memory), data, bytes, bytes});
  }
  /// The registration of the next announced slice, if this is that slice; null otherwise.
  Memory take(const std::byte* data, std::size_t bytes) {
    const auto next =
        std::ranges::find_if(announced_, [](const auto& each) { return each.left > 0; });
    if (next == announced_.end()) return nullptr;
    if (data != next->data + (next->bytes - next->left) || bytes > next->left) return nullptr;
    next->left -= bytes;
    return next->memory;
  }
  /// The last of so many requests reads lent memory.
  void lend_until(std::uint64_t posted) { lent_until_ = posted; }
  /// Whether the device has finished reading, where so many requests have completed. Forgets what
  /// has been lent whole if so.
  bool is_drained(std::uint64_t completed) {
    if (completed < lent_until_) return false;
    if (!announced_.empty()) drop_lent();
    return true;
  }
  /// The device reads nothing any more.
  void clear() {
    lent_until_ = 0;
    announced_.clear();
  }

 private:
  struct Announced {
    Memory memory;
    const std::byte* data;
    std::size_t bytes;
    std::size_t left;  ///< not lent yet
  };

  void drop_lent() {
    std::erase_if(announced_, [](const Announced& each) { return each.left == 0; });
  }

  std::vector<Announced> announced_;
  std::uint64_t lent_until_ = 0;
};

}  // namespace ccoll::verbs
