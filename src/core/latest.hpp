// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The last few of many keys, such as those of communicators that have ended. The first key takes
/// all the memory, so that later ones do not make the process grow.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ccoll {

/// Remembers `Capacity` keys; a further one replaces the oldest. A look-up reads all of them. Not
/// thread-safe.
template <typename Key, std::size_t Capacity>
class Latest {
 public:
  /// Adds a key. False if it is known already; its age does not change.
  bool add(const Key& key) {
    if (contains(key)) return false;
    keys_.reserve(Capacity);
    if (keys_.size() < Capacity) {
      keys_.push_back(key);
    } else {
      keys_[oldest_] = key;
      oldest_ = (oldest_ + 1) % Capacity;
    }
    return true;
  }

  bool contains(const Key& key) const { return std::ranges::find(keys_, key) != keys_.end(); }

 private:
  std::vector<Key> keys_;
  std::size_t oldest_ = 0;  ///< index of the oldest key, once the capacity is used
};

}  // namespace ccoll
