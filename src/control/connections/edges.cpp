// SPDX-License-Identifier: Apache-2.0
#include "control/connections/edges.hpp"

#include <algorithm>
#include <utility>

namespace ccoll::control {

Edge* Edges::find(std::uint32_t peer) const {
  const auto found = edges_.find(peer);
  return found == edges_.end() ? nullptr : found->second.get();
}

Edge* Edges::nearest(std::uint32_t rank) const {
  const auto distance = [rank](std::uint32_t to) { return to < rank ? rank - to : to - rank; };
  const auto edge = std::ranges::min_element(
      edges_, {}, [&](const auto& entry) { return distance(entry.first); });
  if (edge == edges_.end() || distance(edge->first) >= distance(rank_)) return nullptr;
  return edge->second.get();
}

std::shared_ptr<Edge> Edges::add(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
                                 std::weak_ptr<Edge::Owner> owner) {
  auto edge = std::make_shared<Edge>(std::move(stream), peer, address, std::move(owner),
                                     frame_limit_, now_);
  edges_[peer] = edge;
  return edge;
}

bool Edges::remove(const Edge& edge) {
  const auto found = edges_.find(edge.peer());
  if (found != edges_.end() && found->second.get() == &edge) {
    edges_.erase(found);
    return true;
  }
  std::erase_if(dismissed_, [&](const auto& each) { return each.get() == &edge; });
  return false;
}

std::shared_ptr<Edge> Edges::dismiss(std::uint32_t peer) {
  const auto found = edges_.find(peer);
  if (found == edges_.end()) return nullptr;
  auto edge = std::move(found->second);
  edges_.erase(found);
  edge->finish();
  dismissed_.push_back(edge);
  return edge;
}

void Edges::set_frame_limit(std::size_t limit) {
  frame_limit_ = limit;
  for (const auto& [peer, edge] : edges_) edge->set_frame_limit(limit);
}

void Edges::send(Edge& edge, const std::string& frame) {
  traffic_.sent();
  edge.send(frame);
}

void Edges::forward(const std::string& frame, std::uint32_t except) {
  for (const auto& [peer, edge] : edges_)
    if (peer != except) send(*edge, frame);
}

void Edges::finish() {
  for (const auto& [peer, edge] : edges_) edge->finish();
}

void Edges::close() noexcept {
  for (const auto& [peer, edge] : edges_) edge->close();
}

void Edges::clear() {
  close();
  edges_.clear();
  for (const auto& edge : std::exchange(dismissed_, {})) edge->close();
}

}  // namespace ccoll::control
