// SPDX-License-Identifier: Apache-2.0
#pragma once

/// That a rank of this process takes part in its job: what the inproc transport has to be told by
/// whoever makes the rank.

#include <array>
#include <cstdint>
#include <utility>

#include "net/peer_address.hpp"

namespace ccoll::inproc {

/// A rank of this process, whatever its job: no two have one listener, and a lone rank has none
/// (port 0), sends to itself alone, and needs no Residence.
using Resident = std::pair<std::array<std::uint8_t, 16>, std::uint16_t>;
inline Resident resident(const PeerAddress& rank) { return {rank.ip, rank.port}; }

/// For as long as a rank takes part in its job; its listener lives longer. Then what was sent to it
/// and it never opened is dropped, and nothing more is kept for it.
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
