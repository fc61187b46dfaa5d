// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/links.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/text.hpp"
#include "rendezvous/identity.hpp"

namespace ccoll::bench {

std::set<std::string> transports_from(const Communicator& communicator) {
  std::set<std::string> names;
  for (int peer = 0; peer < communicator.size(); peer++)
    if (peer != communicator.rank()) names.insert(communicator.transport_to(peer));
  return names;
}

LinkKind kind_of_links(Communicator& communicator, std::string_view command) {
  const auto transports = transports_from(communicator);
  const std::uint64_t host = value_or_throw(host_identity());
  std::vector<std::uint64_t> hosts(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&host, 1), std::span(hosts));
  const bool one_host = std::set(hosts.begin(), hosts.end()).size() == 1;
  const bool one_each = std::set(hosts.begin(), hosts.end()).size() == hosts.size();
  if (transports.size() != 1 || !(one_host || one_each))
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{}: links of one kind are measured at a time, these ranks have {}: "
                            "start ranks of one host, or one rank on each of several hosts",
                            command, transports.empty() ? "none" : joined(transports, " and ")));
  const double cores = usable_cores();
  return {*transports.begin(), one_host, one_host ? cores / communicator.size() : cores};
}

}  // namespace ccoll::bench
