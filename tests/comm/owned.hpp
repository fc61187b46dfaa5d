// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Lets tests use the functions for the holder of an owner flag, on parts that no other thread
/// uses.

#include "comm/progress/owner_flag.hpp"

namespace ccoll {

inline const Owned kOwned = *OwnerFlag().try_take();

}  // namespace ccoll
