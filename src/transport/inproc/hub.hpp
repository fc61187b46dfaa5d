// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where the two ends of an inproc link find each other: the process's one table of links that
/// have been opened at one end only.

#include <cstdint>
#include <memory>

#include "transport/arrivals.hpp"
#include "transport/inproc/fifo.hpp"
#include "transport/inproc_residence.hpp"
#include "transport/link.hpp"

namespace ccoll::inproc {

enum class End : std::uint8_t { sender, receiver };

/// The fifo of link `id` to `receiver`, made by whichever end comes first. Each end takes it once;
/// when both have, it belongs to them alone. Of a receiver that takes no part it is the sender's.
std::shared_ptr<Fifo> meet(const LinkId& id, End end, const Resident& receiver);

/// An end goes: forgets the link if the other end never came.
void part(const LinkId& id, const std::shared_ptr<Fifo>& fifo);

/// Transport's, for the receiving ends of rank `to`.
void listen(std::shared_ptr<Arrivals> arrivals);
void forget(std::uint64_t communicator, std::uint32_t to);

}  // namespace ccoll::inproc
