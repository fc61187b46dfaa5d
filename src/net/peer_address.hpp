// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What every rank knows of every other: one row of the address table.

#include <array>
#include <cstdint>
#include <string>

namespace ccoll {

/// So many RDMA ports of a rank are used at most.
inline constexpr std::uint8_t kMostRails = 8;

/// As many cores as an affinity mask can tell of.
inline constexpr std::uint16_t kMostFirstCores = 1024;

/// A limit of more blocks than this is none: no GPU runs as many at once.
inline constexpr std::uint16_t kMostDeviceBlocks = (1 << 14) - 1;

/// So many bits tell processes apart.
inline constexpr int kProcessBits = 48;

/// At most 64 bytes each on the wire: this is the one table that is O(ranks).
struct PeerAddress {
  std::array<std::uint8_t, 16> ip{};  ///< IPv4 as an IPv4-mapped IPv6 address
  std::uint16_t port = 0;             ///< of its listener, for control and links
  std::uint16_t cores = 1;            ///< that its process may use
  std::uint16_t machine_cores = 1;    ///< that its machine has
  std::uint16_t first_core = 0;       ///< of `cores`, by its number: below kMostFirstCores
  std::uint32_t machine = 0;          ///< equal where hosts (containers) share a kernel; 0: unknown
  std::uint64_t host = 0;             ///< equal on two ranks exactly when they share a host
  /// Equal on two ranks exactly when they are threads of one process; of kProcessBits.
  std::uint64_t process = 0;
  std::uint32_t pid = 0;
  std::uint8_t fabrics = 0;  ///< RDMA networks that it is in, a bit each; 0: none, or not used
  std::uint8_t rails = 0;    ///< RDMA ports that lanes may be spread over, at most kMostRails
  /// 0: data lives in host memory; else equal on two ranks of a host exactly when they have one
  /// GPU.
  std::uint32_t device = 0;
  /// DeviceOptions::blocks, at most kMostDeviceBlocks, and the number of DeviceOptions::copies.
  std::uint16_t device_blocks = 0;
  std::uint8_t device_copies = 0;
  /// What the rank was started with that must be the same on all; see comm/groups/agreement.hpp.
  std::uint32_t agreement = 0;
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};

/// "10.0.0.1" or "fe80::1".
std::string ip_text(const PeerAddress& address);
/// "10.0.0.1:4711" or "[fe80::1]:4711".
std::string endpoint_text(const PeerAddress& address);

}  // namespace ccoll
