// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which port and address of the RDMA devices that there are a pair of ranks uses. Pure: what there
/// is and what was asked for come in as values.

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

/// One entry of a port's table of addresses. A RoCE port has one per IP address and version of
/// RoCE.
struct Gid {
  int index = 0;
  GidBytes bytes{};
  bool is_roce_v2 = false;
  GidBytes network{};  ///< what it has in common with those that it reaches; none where not known
};

enum class LinkLayer : std::uint8_t { infiniband, ethernet, other };

struct Port {
  std::string device;
  std::uint8_t number = 1;
  std::string state;  ///< as people write it
  bool is_active = false;
  LinkLayer layer = LinkLayer::other;
  double gbit_per_s = 0;
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;  ///< as an ibv_mtu
  std::vector<Gid> gids;
};

/// Networks whose members reach each other, a bit each: what PeerAddress::fabrics is made of.
enum class Fabric : std::uint8_t { infiniband = 1, roce_ipv4 = 2, roce_ipv6 = 4 };

/// The networks that a port is in; none of one that is not active.
std::uint8_t fabrics_of(const Port& port);

/// What CCOLL_IB_HCA takes: "mlx5,rxe0:1" devices that begin so, and their ports; "=mlx5_0"
/// exactly;
/// "^mlx5_1" all but these.
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
  std::size_t port = 0;  ///< in the list that was given
  int gid_index = 0;
  GidBytes gid{};
  GidBytes network{};  ///< as of a Gid
};

/// The best of `fabrics`, which both ranks are in.
Fabric best_of(std::uint8_t fabrics);

/// A port in `fabric`, and its address there: the port that has `route`, the IP address by which
/// the peer is reached (IPv4 as IPv4-mapped IPv6), else the fastest.
std::optional<PortChoice> choose_port(std::span<const Port> ports, Fabric fabric,
                                      const GidBytes& route);

/// The ports over which lanes may be spread: the fastest in `fabric` of those whose networks are
/// known, at most kMostRails, each with its address there.
std::vector<PortChoice> rails_in(std::span<const Port> ports, Fabric fabric);

/// Those of `mine` whose network is one of `theirs`, too, at most as many as there. Both ends find
/// as many, and the k-th of either reaches the k-th of the other.
std::vector<PortChoice> matched(std::vector<PortChoice> mine, std::span<const GidBytes> theirs);

/// The network of an InfiniBand port: its subnet's prefix.
GidBytes subnet_of(const GidBytes& gid);
/// The network of an IP address (IPv4 as IPv4-mapped IPv6), by the mask of its interface; none of
/// an address that the port has made itself, of which each network has the same.
GidBytes network_of(const GidBytes& ip, const GidBytes& mask);

/// An IP address or the like as people write it.
std::string text_of(const GidBytes& gid);

}  // namespace ccoll::verbs
