// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/ports.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "net/peer_address.hpp"
#include "system/variables.hpp"

namespace ccoll::verbs {
namespace {

constexpr std::uint8_t bit(Fabric fabric) { return static_cast<std::uint8_t>(fabric); }

bool is_ipv4(const GidBytes& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](auto byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

/// Every port gives itself such an address; it reaches only neighbours.
bool is_link_local(const GidBytes& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

std::optional<Fabric> fabric_of(const Port& port, const Gid& gid) {
  if (port.layer == LinkLayer::infiniband) return Fabric::infiniband;
  if (port.layer != LinkLayer::ethernet || !gid.is_roce_v2) return std::nullopt;
  return is_ipv4(gid.bytes) ? Fabric::roce_ipv4 : Fabric::roce_ipv6;
}

}  // namespace

std::uint8_t fabrics_of(const Port& port) {
  std::uint8_t fabrics = 0;
  if (!port.is_active) return fabrics;
  for (const Gid& gid : port.gids)
    if (const auto fabric = fabric_of(port, gid)) fabrics |= bit(*fabric);
  return fabrics;
}

Result<PortFilter> PortFilter::parse(std::string_view text) {
  PortFilter filter;
  const auto whole = text;
  if (text.starts_with('^')) filter.excludes_ = true, text.remove_prefix(1);
  if (text.starts_with('=')) filter.exact_ = true, text.remove_prefix(1);
  while (!text.empty()) {
    auto item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const auto colon = item.find(':');
    Item made{std::string(item.substr(0, colon)), std::nullopt};
    if (colon != std::string_view::npos) {
      unsigned number = 0;
      const auto* const end = item.data() + item.size();
      const auto [rest, error] = std::from_chars(item.data() + colon + 1, end, number);
      if (error != std::errc() || rest != end || number < 1 || number > 255)
        return fail(ErrorKind::invalid_argument,
                    "{}={}: '{}' needs a port number from 1 to 255 after the colon",
                    set_as("CCOLL_IB_HCA"), whole, item);
      made.port = static_cast<std::uint8_t>(number);
    }
    if (made.device.empty())
      return fail(ErrorKind::invalid_argument,
                  "{}={}: names of devices were expected, as in mlx5_0:1,mlx5_1",
                  set_as("CCOLL_IB_HCA"), whole);
    filter.items_.push_back(std::move(made));
  }
  return filter;
}

bool PortFilter::takes(std::string_view device, std::uint8_t port) const {
  if (items_.empty()) return true;
  const bool named = std::ranges::any_of(items_, [&](const Item& item) {
    const bool same = exact_ ? device == item.device : device.starts_with(item.device);
    return same && item.port.value_or(port) == port;
  });
  return named != excludes_;
}

Fabric best_of(std::uint8_t fabrics) {
  for (const auto fabric : {Fabric::infiniband, Fabric::roce_ipv4})
    if ((fabrics & bit(fabric)) != 0) return fabric;
  return Fabric::roce_ipv6;
}

std::optional<PortChoice> choose_port(std::span<const Port> ports, Fabric fabric,
                                      const GidBytes& route) {
  std::optional<PortChoice> best;
  // Compare in this order: on the route, not link-local, speed.
  std::tuple<bool, bool, double> best_rank{};
  for (std::size_t i = 0; i < ports.size(); i++) {
    if (!ports[i].is_active) continue;
    for (const Gid& gid : ports[i].gids) {
      if (fabric_of(ports[i], gid) != fabric) continue;
      const std::tuple rank(gid.bytes == route, !is_link_local(gid.bytes), ports[i].gbit_per_s);
      if (best && rank <= best_rank) continue;
      best = {i, gid.index, gid.bytes, gid.network};
      best_rank = rank;
    }
  }
  return best;
}

std::vector<PortChoice> rails_in(std::span<const Port> ports, Fabric fabric) {
  std::vector<PortChoice> rails;
  double fastest = 0;
  for (std::size_t i = 0; i < ports.size(); i++) {
    auto choice = choose_port(ports.subspan(i, 1), fabric, {});
    if (!choice || choice->network == GidBytes{} || ports[i].gbit_per_s < fastest) continue;
    if (ports[i].gbit_per_s > fastest) rails.clear();
    fastest = ports[i].gbit_per_s;
    choice->port = i;
    rails.push_back(*choice);
  }
  rails.resize(std::min<std::size_t>(rails.size(), kMostRails));
  return rails;
}

std::vector<PortChoice> matched(std::vector<PortChoice> mine, std::span<const GidBytes> theirs) {
  std::map<GidBytes, std::size_t> left;
  for (const GidBytes& network : theirs) left[network]++;
  std::ranges::stable_sort(mine, {}, &PortChoice::network);
  std::vector<PortChoice> pairs;
  for (const PortChoice& each : mine) {
    std::size_t& there = left[each.network];
    if (there == 0) continue;
    there--;
    pairs.push_back(each);
  }
  return pairs;
}

GidBytes subnet_of(const GidBytes& gid) {
  GidBytes subnet{};
  std::copy_n(gid.begin(), 8, subnet.begin());
  return subnet;
}

GidBytes network_of(const GidBytes& ip, const GidBytes& mask) {
  GidBytes network{};
  if (is_link_local(ip)) return network;
  for (std::size_t i = 0; i < network.size(); i++) network[i] = ip[i] & mask[i];
  return network;
}

std::string text_of(const GidBytes& gid) {
  PeerAddress address;
  address.ip = gid;
  return ip_text(address);
}

}  // namespace ccoll::verbs
