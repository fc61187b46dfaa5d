// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything: `#include <ccoll/ccoll.hpp>`.

#include "ccoll/blocks.hpp"
#include "ccoll/buffer.hpp"
#include "ccoll/call_group.hpp"
#include "ccoll/communicator.hpp"
#include "ccoll/counters.hpp"
#include "ccoll/device.hpp"
#include "ccoll/environment.hpp"
#include "ccoll/memory.hpp"
#include "ccoll/mesh.hpp"
#include "ccoll/message.hpp"
#include "ccoll/options.hpp"
#include "ccoll/reduction.hpp"
#include "ccoll/store.hpp"
#include "ccoll/strangers.hpp"
#include "ccoll/tls.hpp"
#include "ccoll/types.hpp"
#include "ccoll/unique_id.hpp"
#include "ccoll/version.hpp"
#include "ccoll/work.hpp"
