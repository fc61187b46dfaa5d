// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which host and which process this is, in numbers that are equal exactly when the thing is.

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

#include "core/result.hpp"
#include "net/peer_address.hpp"

namespace ccoll {

// What these cannot find out for lack of something is Error{exhausted}: two ranks of one host that
// do not both know it would count as of two.

/// The running kernel's; empty where it does not say.
Result<std::string> boot_identity();

/// A host is a running kernel and a network and an IPC namespace in it; CCOLL_HOST_ID (any text)
/// overrides that.
Result<std::uint64_t> host_identity();

/// This rank's row of the address table, as long as it has no listener.
Result<PeerAddress> identify();
/// `address` with that of its listener.
PeerAddress located(PeerAddress address, const asio::ip::tcp::endpoint& endpoint);

/// Cores that this process may use: its affinity mask, limited by the control group's quota.
std::uint16_t usable_cores();

/// Of the largest cache that a core of this machine reaches, what this host's cores may count on
/// together: a guest with few of the cores of a large machine is told of all of it. 0 where the
/// kernel does not say.
std::uint64_t host_cache_bytes();

}  // namespace ccoll
