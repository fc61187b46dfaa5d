// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The caller's side of start-up: it talks to the store and waits.

#include <memory>

#include "control/hub.hpp"

namespace ccoll::control {

/// Brings `hub` together with the other ranks through `store`. Returns when its connections are up
/// or, with a failure, shortly after the deadline at the latest. Blocks; not on the service thread.
Status join(const std::shared_ptr<Hub>& hub, const Control::Membership& membership, Store& store);

}  // namespace ccoll::control
