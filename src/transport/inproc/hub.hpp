// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The two ends of an inproc link find each other here, in the process's table of links that only
/// one end has opened so far.

#include <cstdint>
#include <memory>

#include "transport/arrivals.hpp"
#include "transport/inproc/fifo.hpp"
#include "transport/inproc_residence.hpp"
#include "transport/link.hpp"

namespace ccoll::inproc {

enum class End : std::uint8_t { sender, receiver };

/// The fifo of link `id` to `receiver`, made by the end that comes first. Each end takes it once;
/// then the two own it alone. If the receiver takes no part in the job, only the sender owns it.
std::shared_ptr<Fifo> meet(const LinkId& id, End end, const Resident& receiver);

/// An end goes: forgets the link if the other end never came, unless it holds unread slices.
void part(const LinkId& id, const std::shared_ptr<Fifo>& fifo);

/// As Transport's, for the receiving ends of rank `to`.
void listen(std::shared_ptr<Arrivals> arrivals);
void forget(std::uint64_t communicator, std::uint32_t to);

}  // namespace ccoll::inproc
