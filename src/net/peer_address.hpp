// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One row of the address table: the facts that every rank knows about every other.

#include <array>
#include <cstdint>
#include <string>

namespace ccoll {

/// Upper limit on the RDMA ports that a rank uses.
inline constexpr std::uint8_t kMostRails = 8;

/// Upper limit on core numbers: the size of an affinity mask.
inline constexpr std::uint16_t kMostFirstCores = 1024;

/// A larger limit on blocks has no effect: no GPU runs as many at once.
inline constexpr std::uint16_t kMostDeviceBlocks = (1 << 14) - 1;

/// Number of bits that distinguish processes.
inline constexpr int kProcessBits = 48;

/// At most 64 bytes each on the wire, because this is the one table that is O(ranks).
struct PeerAddress {
  std::array<std::uint8_t, 16> ip{};  ///< IPv4 as an IPv4-mapped IPv6 address
  std::uint16_t port = 0;             ///< its listener's, for control and links
  std::uint16_t cores = 1;            ///< cores that its process may use
  std::uint16_t machine_cores = 1;    ///< cores of its machine
  std::uint16_t first_core = 0;       ///< number of the first of `cores`: below kMostFirstCores
  std::uint32_t machine = 0;          ///< equal if hosts (containers) share a kernel; 0: unknown
  std::uint64_t host = 0;             ///< equal on two ranks exactly if they share a host
  /// Equal on two ranks exactly if they are threads of one process; kProcessBits wide.
  std::uint64_t process = 0;
  std::uint32_t pid = 0;
  std::uint8_t fabrics = 0;  ///< RDMA networks that it is in, a bit each; 0: none, or unused
  std::uint8_t rails = 0;    ///< RDMA ports that lanes may be spread over, at most kMostRails
  /// 0: data are in host memory; else equal on two ranks of a host exactly if they share a GPU.
  std::uint32_t device = 0;
  /// DeviceOptions::blocks, at most kMostDeviceBlocks, and the number of DeviceOptions::copies.
  std::uint16_t device_blocks = 0;
  std::uint8_t device_copies = 0;
  /// Options that must be the same on all ranks, as one number; see comm/groups/agreement.hpp.
  std::uint32_t agreement = 0;
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};

/// "10.0.0.1" or "fe80::1".
std::string ip_text(const PeerAddress& address);
/// "10.0.0.1:4711" or "[fe80::1]:4711".
std::string endpoint_text(const PeerAddress& address);

}  // namespace ccoll
