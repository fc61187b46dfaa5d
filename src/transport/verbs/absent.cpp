// SPDX-License-Identifier: Apache-2.0
// The verbs transport for builds without the headers of libibverbs.
#include "transport/verbs/factory.hpp"

namespace ccoll::verbs {

bool reaches(const PeerAddress&, const PeerAddress&) { return false; }

std::string why_not(const PeerAddress&, const PeerAddress&) {
  return "this build has no RDMA (libibverbs-dev was missing, or -Dverbs=disabled was set)";
}

std::shared_ptr<Transport> make(const TransportContext&, std::shared_ptr<Transport>) {
  return nullptr;
}

Result<std::uint8_t> usable_fabrics() { return std::uint8_t{0}; }

std::uint8_t usable_rails() { return 0; }

std::vector<std::string> describe_fabrics() { return {"no: " + why_not({}, {})}; }

}  // namespace ccoll::verbs
