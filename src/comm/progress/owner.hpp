// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Having a communicator's owner flag, for as long as a scope lasts.

#include "comm/progress/progress.hpp"

namespace ccoll {

/// Holds the owner flag, whose holder makes progress. On release, operations still under way
/// continue in the background.
template <typename Operations = Progress::Operations>
class Owner {
 public:
  /// Waits for the flag. Throws if this thread is inside a reduction's function that one of the
  /// communicator's calls invoked: the wait would never end.
  explicit Owner(Progress& progress) : Owner(progress, own(progress)) {}
  /// Adopts the flag, which this thread already holds.
  Owner(Progress& progress, Owned owned) : Owner(progress, owned, progress.operations()) {}
  // The same two; `operations`: see Progress::give_back().
  Owner(Progress& progress, const Operations& operations)
      : Owner(progress, own(progress), operations) {}
  Owner(Progress& progress, Owned owned, const Operations& operations)
      : progress_(progress), operations_(operations), owned_(owned) {}
  ~Owner() { progress_.give_back(owned_, operations_); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  operator Owned() const { return owned_; }

 private:
  static Owned own(Progress& progress) {
    const auto owned = progress.try_own();
    return owned ? *owned : progress.wait_to_own();
  }

  Progress& progress_;
  const Operations& operations_;
  [[no_unique_address]] const Owned owned_;
};

}  // namespace ccoll
