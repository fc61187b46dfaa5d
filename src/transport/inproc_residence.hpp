// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Registers a rank of this process with the inproc transport for as long as it takes part in its
/// job. The maker of the rank holds it.

#include <array>
#include <cstdint>
#include <utility>

#include "net/peer_address.hpp"

namespace ccoll::inproc {

/// Identifies a rank of this process, in any job, by its listener: no two ranks share one. A lone
/// rank has no listener (port 0), sends only to itself, and needs no Residence.
using Resident = std::pair<std::array<std::uint8_t, 16>, std::uint16_t>;
inline Resident resident(const PeerAddress& rank) { return {rank.ip, rank.port}; }

/// Lives as long as a rank takes part in its job; its listener lives longer. At its end,
/// connections that the rank never opened are dropped, and none are kept for it any more.
class Residence {
 public:
  explicit Residence(const PeerAddress& rank);
  ~Residence();
  Residence(const Residence&) = delete;
  Residence& operator=(const Residence&) = delete;

 private:
  const Resident rank_;
};

}  // namespace ccoll::inproc
