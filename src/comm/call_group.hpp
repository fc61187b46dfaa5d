// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The calling thread's open group of calls, as the calls see it.

#include "ccoll/communicator.hpp"

namespace ccoll::call_group {

/// Whether this thread's blocking calls only begin now.
bool is_open();
/// A call that was begun instead of made; group_end waits for it.
void add(Work work);

}  // namespace ccoll::call_group
