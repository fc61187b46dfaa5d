// SPDX-License-Identifier: Apache-2.0
#pragma once

/// This host and this process in numbers that are equal only for the same host or process.

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

#include "core/result.hpp"
#include "net/peer_address.hpp"

namespace ccoll {

// If these functions lack the means to find out, they fail with Error{exhausted}. Otherwise two
// ranks of one host could count as ranks of two.

/// The boot id of the running kernel; empty if the kernel does not give one.
Result<std::string> boot_identity();

/// A host is a running kernel with one network and one IPC namespace. CCOLL_HOST_ID (any text)
/// overrides that.
Result<std::uint64_t> host_identity();

/// This rank's row of the address table, without a listener.
Result<PeerAddress> identify();
/// `address` with the address of its listener.
PeerAddress located(PeerAddress address, const asio::ip::tcp::endpoint& endpoint);

/// Cores that this process may use: its affinity mask, limited by the control group's quota.
std::uint16_t usable_cores();

/// The share of this machine's largest cache that all of this host's cores may use. A guest with
/// few cores of a large machine still sees the whole cache, so this is limited per core. 0 if the
/// kernel does not say.
std::uint64_t host_cache_bytes();

}  // namespace ccoll
