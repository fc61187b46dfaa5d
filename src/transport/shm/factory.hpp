// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The shm transport, as the table of transports sees it.

#include "transport/transport.hpp"

namespace ccoll::shm {

bool reaches(const PeerAddress& a, const PeerAddress& b);
std::shared_ptr<Transport> make(const TransportContext& context, std::shared_ptr<Transport> next);
/// As in TransportKind: while they leave nearly all of the slots' budget to links that are needed.
bool may_open_ahead(const TransportContext& context);

}  // namespace ccoll::shm
