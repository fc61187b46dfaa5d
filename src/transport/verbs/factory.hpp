// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The verbs transport, as the table of transports sees it.

#include "transport/transport.hpp"

namespace ccoll::verbs {

bool reaches(const PeerAddress& a, const PeerAddress& b);
std::string why_not(const PeerAddress& mine, const PeerAddress& theirs);
std::shared_ptr<Transport> make(const TransportContext& context, std::shared_ptr<Transport> next);

Result<std::uint8_t> usable_fabrics();
std::uint8_t usable_rails();
std::vector<std::string> describe_fabrics();

}  // namespace ccoll::verbs
