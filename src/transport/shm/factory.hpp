// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The shm transport, as the table of transports sees it.

#include "transport/transport.hpp"

namespace ccoll::shm {

bool reaches(const PeerAddress& a, const PeerAddress& b);
std::shared_ptr<Transport> make(const TransportContext& context, std::shared_ptr<Transport> next);

}  // namespace ccoll::shm
