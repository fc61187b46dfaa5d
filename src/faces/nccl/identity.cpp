// SPDX-License-Identifier: Apache-2.0
// Ids: made by NCCL's rule for interfaces, and read.
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "faces/nccl/handle.hpp"
#include "faces/nccl/settings/environment.hpp"
#include "faces/nccl/start.hpp"
#include "system/file_descriptor.hpp"
#include "system/variables.hpp"

namespace ccoll::nccl {
namespace {

/// Begins an id that is an address.
constexpr std::string_view kAddressMagic = "ccoll-at";

bool has_address(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  const auto& address = reinterpret_cast<const sockaddr_in6&>(*entry.ifa_addr).sin6_addr;
  return !IN6_IS_ADDR_LINKLOCAL(&address);
}

std::vector<std::string> interfaces() {
  const StandardStreamsTaken taken;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::vector<std::string> names;
  for (const auto* each = all; each != nullptr; each = each->ifa_next)
    if (has_address(*each) && std::ranges::find(names, each->ifa_name) == names.end())
      names.emplace_back(each->ifa_name);
  ::freeifaddrs(all);
  return names;
}

/// NCCL's order: InfiniBand first, then all but those of containers and of this host alone.
std::string chosen(const std::vector<std::string>& names) {
  const auto rank = [](const std::string& name) {
    if (name.starts_with("ib")) return 0;
    if (name.starts_with("docker")) return 2;
    if (name == "lo") return 3;
    if (name.starts_with("virbr")) return 4;
    return 1;
  };
  const auto best = std::ranges::min_element(names, {}, rank);
  return best == names.end() ? "" : "=" + *best;
}

/// Whether only this host reaches it.
bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// Refuses all but "host:port", and addresses that strangers could reach without a secret.
void check_address(const std::string& address) {
  const auto colon = address.rfind(':');
  int port = 0;
  bool is_address = colon != address.npos && colon > 0;
  if (is_address) {
    const auto* const end = address.data() + address.size();
    const auto [rest, error] = std::from_chars(address.data() + colon + 1, end, port);
    is_address = error == std::errc() && rest == end && port > 0 && port < 65536;
  }
  std::string host = address.substr(0, is_address ? colon : 0);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != host.npos)
    is_address = false;
  if (!is_address || host.empty())
    refuse(ncclInvalidArgument, "NCCL_COMM_ID={}: expected host:port or [address]:port", address);
  if (!is_loopback(host) && !read_variable("CCOLL_TOKEN_FILE"))
    refuse(ncclInvalidArgument,
           "NCCL_COMM_ID={}: the address carries no secret: expected a loopback address, or a file "
           "with the job's secret in CCOLL_TOKEN_FILE",
           address);
}

ncclUniqueId id_of_address(const std::string& address) {
  check_address(address);
  if (kAddressMagic.size() + address.size() >= sizeof(ncclUniqueId))
    refuse(ncclInvalidArgument, "NCCL_COMM_ID={}: the address is too long", address);
  ncclUniqueId id{};
  const auto text = std::string(kAddressMagic) + address;
  std::ranges::copy(text, id.internal);
  return id;
}

}  // namespace

ncclUniqueId new_id() {
  check_environment();
  if (!settings().comm_id.empty()) return id_of_address(settings().comm_id);
  const auto named = read_variable("CCOLL_SOCKET_IFNAME");
  UniqueId made;
  try {
    made = UniqueId::create(named ? *named : chosen(interfaces()));
  } catch (const Error& error) {
    if (!named || error.kind() != ErrorKind::invalid_argument) throw;
    refuse(ncclSystemError, "{}", error.what());
  }
  ncclUniqueId id;
  static_assert(sizeof id == sizeof made.bytes);
  std::memcpy(&id, made.bytes.data(), sizeof id);
  return id;
}

Meeting meeting_of(const ncclUniqueId& id) {
  const std::string_view bytes(id.internal, sizeof id.internal);
  if (bytes.starts_with(kAddressMagic)) {
    const auto rest = bytes.substr(kAddressMagic.size());
    return KnownAddress{std::string(rest.substr(0, rest.find('\0')))};
  }
  UniqueId read;
  std::memcpy(read.bytes.data(), &id, sizeof id);
  return read;
}

}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, GetUniqueId, ncclUniqueId* uniqueId) {
  return guarded("ncclGetUniqueId", [&] {
    given(uniqueId, "uniqueId");
    *uniqueId = new_id();
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId) {
  return guarded("ncclCommGetUniqueId", [&] {
    comm_of(comm)->check_known();
    given(uniqueId, "uniqueId");
    *uniqueId = new_id();
    return ncclSuccess;
  });
}
