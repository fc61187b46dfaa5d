// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where the two ends of an inproc link find each other: the process's one table of links that
/// have been opened at one end only.

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "net/peer_address.hpp"
#include "transport/arrivals.hpp"
#include "transport/inproc/fifo.hpp"
#include "transport/link.hpp"

namespace ccoll::inproc {

enum class End : std::uint8_t { sender, receiver };

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

/// The fifo of link `id` to `receiver`, made by whichever end comes first. Each end takes it once;
/// when both have, it belongs to them alone. Of a receiver that takes no part it is the sender's.
std::shared_ptr<Fifo> meet(const LinkId& id, End end, const Resident& receiver);

/// An end goes: forgets the link if the other end never came.
void part(const LinkId& id, const std::shared_ptr<Fifo>& fifo);

/// Transport's, for the receiving ends of rank `to`.
void listen(std::shared_ptr<Arrivals> arrivals);
void forget(std::uint64_t communicator, std::uint32_t to);

}  // namespace ccoll::inproc
