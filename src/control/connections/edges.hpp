// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank's control connections: one to each peer, and those to lost ranks, whose last frames
/// still go out. It counts the messages that it sends. Service thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/connections/edge.hpp"
#include "control/state/traffic_count.hpp"
#include "control/wire.hpp"
#include "core/deadline.hpp"

namespace ccoll::control {

class Edges {
 public:
  using Map = std::map<std::uint32_t, std::shared_ptr<Edge>>;

  Edges(std::uint32_t rank, std::uint32_t size, TrafficCount& traffic, Now now)
      : rank_(rank), frame_limit_(max_start_frame(size)), traffic_(traffic), now_(now) {}

  Map::const_iterator begin() const { return edges_.begin(); }
  Map::const_iterator end() const { return edges_.end(); }
  bool empty() const { return edges_.empty(); }
  bool contains(std::uint32_t peer) const { return edges_.contains(peer); }
  /// Null if there is none.
  Edge* find(std::uint32_t peer) const;
  /// To the peer nearest to `rank`, if it is nearer than this rank is; else null.
  Edge* nearest(std::uint32_t rank) const;

  /// Adds an established connection, which is not read yet.
  std::shared_ptr<Edge> add(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
                            std::weak_ptr<Edge::Owner> owner);
  /// Forgets the connection. Returns whether it was the one to its peer: it may be to a lost rank.
  bool remove(const Edge& edge);
  /// Finishes the connection to a lost rank, and ignores what comes over it. Null if there is none.
  std::shared_ptr<Edge> dismiss(std::uint32_t peer);
  /// Whether frames that come over it count: not if its peer is lost.
  bool counts(const Edge& edge) const { return find(edge.peer()) == &edge; }
  /// Applies to all connections, and to later ones.
  void set_frame_limit(std::size_t limit);

  void send(Edge& edge, const std::string& frame);
  void forward(const std::string& frame, std::uint32_t except);
  /// As Edge's, for the connections to peers.
  void finish();
  void close() noexcept;
  /// Closes and forgets all.
  void clear();

 private:
  const std::uint32_t rank_;
  std::size_t frame_limit_;
  TrafficCount& traffic_;
  const Now now_;
  Map edges_;
  std::vector<std::shared_ptr<Edge>> dismissed_;
};

}  // namespace ccoll::control
