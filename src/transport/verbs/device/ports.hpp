// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Chooses the port and address of the RDMA devices for a pair of ranks. Pure: the devices and the
/// settings come in as values.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace ccoll::verbs {

using GidBytes = std::array<std::uint8_t, 16>;

/// An entry of a port's address table. A RoCE port has one per IP address and RoCE version.
struct Gid {
  int index = 0;
  GidBytes bytes{};
  bool is_roce_v2 = false;
  GidBytes network{};  ///< prefix shared with the addresses it reaches; zero if unknown
};

enum class LinkLayer : std::uint8_t { infiniband, ethernet, other };

struct Port {
  std::string device;
  std::uint8_t number = 1;
  std::string state;  ///< for messages
  bool is_active = false;
  LinkLayer layer = LinkLayer::other;
  double gbit_per_s = 0;
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;  ///< as an ibv_mtu
  std::vector<Gid> gids;
};

/// Networks whose members reach each other, a bit each; PeerAddress::fabrics is a set of them.
enum class Fabric : std::uint8_t { infiniband = 1, roce_ipv4 = 2, roce_ipv6 = 4 };

/// The networks of a port; empty for an inactive port.
std::uint8_t fabrics_of(const Port& port);

/// The value of CCOLL_IB_HCA. "mlx5,rxe0:1": devices by prefix, and their ports. "=mlx5_0": exact
/// names. "^mlx5_1": all but these.
class PortFilter {
 public:
  static Result<PortFilter> parse(std::string_view text);
  bool takes(std::string_view device, std::uint8_t port) const;

 private:
  struct Item {
    std::string device;
    std::optional<std::uint8_t> port;
  };
  bool exact_ = false;
  bool excludes_ = false;
  std::vector<Item> items_;
};

struct PortChoice {
  std::size_t port = 0;  ///< index in the given list
  int gid_index = 0;
  GidBytes gid{};
  GidBytes network{};  ///< as Gid::network
};

/// The best of `fabrics`, the set that both ranks are in.
Fabric best_of(std::uint8_t fabrics);

/// A port in `fabric` with its address there. Preferred is the port with `route`, the local IP
/// address of the connection to the peer (IPv4 as IPv4-mapped IPv6); then the fastest.
std::optional<PortChoice> choose_port(std::span<const Port> ports, Fabric fabric,
                                      const GidBytes& route);

/// The ports over which lanes may be spread: the fastest in `fabric` with known networks, at most
/// kMostRails, each with its address there.
std::vector<PortChoice> rails_in(std::span<const Port> ports, Fabric fabric);

/// The ports in `mine` whose network is also in `theirs`, at most as many per network as there.
/// Both ends get equally many, and the k-th of one reaches the k-th of the other.
std::vector<PortChoice> matched(std::vector<PortChoice> mine, std::span<const GidBytes> theirs);

/// The network of an InfiniBand port: its subnet prefix.
GidBytes subnet_of(const GidBytes& gid);
/// The network of an IP address (IPv4 as IPv4-mapped IPv6) by its interface's mask. Zero for
/// link-local addresses, which are the same in every network.
GidBytes network_of(const GidBytes& ip, const GidBytes& mask);

/// An IP address or GID as text.
std::string text_of(const GidBytes& gid);

}  // namespace ccoll::verbs
