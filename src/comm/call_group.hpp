// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The calling thread's open group of calls, as the calls see it.

#include <string_view>

#include "ccoll/communicator.hpp"
#include "core/result.hpp"

namespace ccoll::call_group {

/// Whether this thread's blocking calls only begin now.
bool is_open();
/// A call that was begun instead of made; group_end waits for it.
void add(Work work);
/// A failure in an open group: of calls whose result nothing that comes before group_end could be.
Status refuse_in_one(std::string_view call);

}  // namespace ccoll::call_group
