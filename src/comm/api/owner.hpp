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
      : communicator_(communicator), owned_(own(communicator)) {}
  /// Adopts the flag, which this thread already holds.
  Owner(Implementation& communicator, Owned owned) : communicator_(communicator), owned_(owned) {}
  ~Owner() { communicator_.progress().give_back(owned_, communicator_); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  operator Owned() const { return owned_; }

 private:
  static Owned own(Implementation& communicator) {
    const auto owned = communicator.progress().try_own();
    return owned ? *owned : communicator.wait_to_own();
  }

  Implementation& communicator_;
  [[no_unique_address]] const Owned owned_;
};

}  // namespace ccoll
