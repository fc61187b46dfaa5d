// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which host and which process this is, in numbers that are equal exactly when the thing is.

#include <asio/ip/tcp.hpp>
#include <cstdint>

#include "core/peer_address.hpp"

namespace ccoll {

/// This rank's row of the address table; `endpoint` is its listener's. A host is a running kernel
/// and a network and an IPC namespace in it; CCOLL_HOST_ID (any text) overrides that.
PeerAddress identify(const asio::ip::tcp::endpoint& endpoint);

/// Cores that this process may use: its affinity mask, limited by the control group's quota.
std::uint16_t usable_cores();

/// Of the largest cache that a core of this machine reaches; 0 where the kernel does not say.
std::uint64_t last_level_cache_bytes();

}  // namespace ccoll
