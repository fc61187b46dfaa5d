// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything: `#include <ccoll/ccoll.hpp>`.

#include "ccoll/communicator.hpp"
#include "ccoll/environment.hpp"
#include "ccoll/reduction.hpp"
#include "ccoll/store.hpp"
#include "ccoll/types.hpp"
