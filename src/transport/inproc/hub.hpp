// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where the two ends of an inproc link find each other: the process's one table of links that
/// have been opened at one end only.

#include <memory>

#include "transport/inproc/fifo.hpp"
#include "transport/link.hpp"

namespace ccoll::inproc {

/// The fifo of link `id`, made by whichever end comes first. Each end takes it once; when both
/// have, it belongs to them alone.
std::shared_ptr<Fifo> meet(const LinkId& id);

/// An end goes: forgets the link if the other end never came.
void part(const LinkId& id, const std::shared_ptr<Fifo>& fifo);

}  // namespace ccoll::inproc
