// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Having a communicator's owner flag, for as long as a scope lasts.

#include "comm/api/implementation.hpp"

namespace ccoll {

/// Holds the owner flag, whose holder makes progress. On release, operations still under way
/// continue in the background.
class Communicator::Implementation::Owner {
 public:
  explicit Owner(Implementation& communicator)
      : communicator_(communicator), owned_(communicator.own()) {}
  /// Adopts the flag, which this thread already holds.
  Owner(Implementation& communicator, Owned owned) : communicator_(communicator), owned_(owned) {}
  ~Owner() {
    if (communicator_.busy(owned_))
      communicator_.release_to_background(owned_);
    else
      communicator_.disown_idle(owned_);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  operator Owned() const { return owned_; }

 private:
  Implementation& communicator_;
  [[no_unique_address]] const Owned owned_;
};

}  // namespace ccoll
