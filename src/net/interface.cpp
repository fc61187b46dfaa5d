// SPDX-License-Identifier: Apache-2.0
// Chooses the address of this host that the other ranks get.
#include "net/interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <asio/ip/udp.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/os_error.hpp"
#include "net/address.hpp"
#include "net/listener.hpp"
#include "system/variables.hpp"

namespace ccoll::net {
namespace {

using asio::ip::tcp;
using asio::ip::udp;

/// "eth,ib" (prefixes), "=eth0" (exact), "^docker,lo" and "^=docker0" (all but these).
class Pattern {
 public:
  explicit Pattern(std::string_view text) {
    if (text.starts_with('^')) excludes_ = true, text.remove_prefix(1);
    if (text.starts_with('=')) exact_ = true, text.remove_prefix(1);
    while (!text.empty()) {
      const std::size_t comma = text.find(',');
      const auto name = text.substr(0, comma);
      if (!name.empty()) names_.emplace_back(name);
      text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    }
  }

  bool takes(const Interface& candidate) const {
    // With exclusions the host must still be reachable for others.
    if (excludes_ && candidate.address.is_loopback()) return false;
    return named(candidate.name) != excludes_;
  }

 private:
  bool named(const std::string& interface) const {
    for (const std::string& name : names_) {
      if (exact_ ? interface == name : interface.starts_with(name)) return true;
    }
    return false;
  }

  bool excludes_ = false;
  bool exact_ = false;
  std::vector<std::string> names_;
};

/// The family's name in CCOLL_SOCKET_FAMILY.
std::string_view family_of(const asio::ip::address& address) {
  return address.is_v4() ? "ipv4" : "ipv6";
}

bool is_of(std::string_view family, const asio::ip::address& address) {
  return family.empty() || family == family_of(address);
}

Result<std::string> named_address(const std::string& interface,
                                  const std::optional<asio::ip::address>& like,
                                  std::string_view family) {
  const Pattern pattern(interface);
  const auto all = list_interfaces();
  const Interface* best = nullptr;
  std::string names;
  for (const Interface& candidate : all) {
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", candidate.name,
                         candidate.address.to_string());
    if (!pattern.takes(candidate) || !is_of(family, candidate.address)) continue;
    const bool fits = !like || candidate.address.is_v4() == like->is_v4();
    const bool best_fits = best != nullptr && (!like || best->address.is_v4() == like->is_v4());
    if (best == nullptr || (fits && !best_fits)) best = &candidate;
  }
  if (best == nullptr) {
    return fail(
        ErrorKind::invalid_argument, "no interface fits {}='{}'{}; this host has: {}",
        set_as("CCOLL_SOCKET_IFNAME"), interface,
        family.empty() ? "" : fmt::format(" and {}={}", set_as("CCOLL_SOCKET_FAMILY"), family),
        names.empty() ? "none" : names);
  }
  return to_string(tcp::endpoint(best->address, 0));
}

/// The address that a packet to `to` would be sent from. It sends nothing.
Result<asio::ip::address> route_to(const udp::endpoint& to) {
  const StandardStreamsTaken taken;
  asio::io_context context;
  udp::socket socket(context);
  std::error_code error;
  socket.open(to.protocol(), error);
  if (!error) socket.connect(to, error);
  const auto from = error ? udp::endpoint() : socket.local_endpoint(error);
  if (error == asio::error::no_descriptors)
    return fail(ErrorKind::exhausted, "no socket: {}", os_error(error));
  if (error) {
    return fail(ErrorKind::invalid_argument,
                "no route to {}: {}; name the interface in CCOLL_SOCKET_IFNAME",
                to.address().to_string(), error.message());
  }
  return from.address();
}

/// Resolves `address`. If it is a name with an address of that family, the result is one.
Result<udp::endpoint> resolve(const std::string& address, std::string_view family) {
  const auto parsed = parse_address(address);
  if (!parsed) return tl::unexpected(parsed.error());
  // Port 0 has no route on some systems; any other port will do.
  const std::uint16_t port = parsed->port == 0 ? 9 : parsed->port;
  if (parsed->host.empty()) return udp::endpoint(asio::ip::address_v4::loopback(), port);
  if (const auto endpoint = numeric_endpoint(*parsed)) {
    return udp::endpoint(endpoint->address(), port);
  }
  const StandardStreamsTaken taken;
  asio::io_context context;
  udp::resolver resolver(context);
  std::error_code error;
  const auto found = resolver.resolve(parsed->host, std::to_string(port), error);
  if (error || found.empty()) {
    return fail(ErrorKind::invalid_argument, "no address is known for '{}': {}", parsed->host,
                error.message());
  }
  for (const auto& entry : found)
    if (is_of(family, entry.endpoint().address())) return entry.endpoint();
  return found.begin()->endpoint();
}

std::string loopback(std::string_view family) {
  return family == "ipv6" ? "[::1]:0" : "127.0.0.1:0";
}

Status check_family(std::string_view family) {
  if (family.empty() || family == "ipv4" || family == "ipv6") return {};
  return fail(ErrorKind::invalid_argument,
              "socket_family (CCOLL_SOCKET_FAMILY) is '{}': expected ipv4, ipv6, or nothing",
              family);
}

}  // namespace

std::vector<Interface> list_interfaces() {
  const StandardStreamsTaken taken;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, ::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    if (entry->ifa_addr->sa_family == AF_INET) {
      sockaddr_in v4{};
      std::memcpy(&v4, entry->ifa_addr, sizeof v4);
      found.push_back({entry->ifa_name, asio::ip::address_v4(ntohl(v4.sin_addr.s_addr))});
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 v6{};
      std::memcpy(&v6, entry->ifa_addr, sizeof v6);
      asio::ip::address_v6::bytes_type bytes{};
      std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
      const asio::ip::address_v6 address(bytes);
      // A link-local address means nothing to another host without the name of its interface.
      if (!address.is_link_local()) found.push_back({entry->ifa_name, address});
    }
  }
  return found;
}

std::string interface_with(const asio::ip::address& address) {
  for (const Interface& interface : list_interfaces())
    if (interface.address == address) return interface.name;
  return {};
}

Result<std::string> local_address(const std::string& interface, const std::string& towards,
                                  std::string_view family) {
  CCOLL_TRY(check_family(family));
  if (towards.empty()) {
    if (interface.empty()) return loopback(family);
    return named_address(interface, std::nullopt, family);
  }
  const auto to = resolve(towards, family);
  if (!to) return tl::unexpected(to.error());
  if (!interface.empty()) return named_address(interface, to->address(), family);
  if (!is_of(family, to->address()) && to->address().is_loopback()) return loopback(family);
  if (!is_of(family, to->address()))
    return fail(ErrorKind::invalid_argument,
                "{}={}, and the store's address {} is of {}: name an interface in "
                "CCOLL_SOCKET_IFNAME, or an address of that family",
                set_as("CCOLL_SOCKET_FAMILY"), family, towards, family_of(to->address()));
  const auto from = route_to(*to);
  if (!from) return tl::unexpected(from.error());
  return to_string(tcp::endpoint(*from, 0));
}

}  // namespace ccoll::net
