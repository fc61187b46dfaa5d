// SPDX-License-Identifier: Apache-2.0
#include "control/publications.hpp"

#include "control/tree.hpp"

namespace ccoll::control {

void Publications::publish(const Waiting& waiting, const std::vector<std::uint32_t>& ranks) {
  for (const std::uint32_t to : ranks)
    if (to != rank_ && to < size_) route({rank_, to, waiting});
}

void Publications::seek_cycle(std::uint64_t communicator, std::uint64_t sequence) {
  for (auto& question : cycles_.seek(communicator, sequence)) route(std::move(question));
}

void Publications::route(Publication publication) {
  const std::uint32_t to = publication.to;
  if (to == rank_) return take(publication);
  Edge* edge = edges_.find(to);
  if (edge == nullptr && !publication.detour) edge = edges_.find(next_hop(rank_, to));
  if (edge == nullptr) {
    // Never back to the tree: if every hop comes nearer to `to`, there is no cycle. Remaining ranks
    // have a connection to the next one on either side (Reconnection).
    publication.detour = true;
    edge = edges_.nearest(to);
  }
  if (edge != nullptr) edges_.send(*edge, encode(publication));
}

void Publications::take(const Publication& told) {
  const auto& [from, to, waiting, detour] = told;
  const auto kind = waiting.signature.kind;
  if (kind == kCycle) return pursue(told);
  if (kind == kAsksClosed && flooding_.has_closed(waiting.communicator)) {
    Waiting answer{waiting.communicator, 0, {}};
    answer.signature.kind = kHasClosed;
    return publish(answer, {from});
  }
  flooding_.settle(news_.waiting(from, waiting));
}

void Publications::pursue(const Publication& asked) {
  const bool has_begun = news_.has_begun(asked.waiting.communicator, asked.waiting.sequence);
  if (asked.from != rank_) {
    for (auto& question : cycles_.pass_on(asked, has_begun)) route(std::move(question));
  } else if (const auto cycle = cycles_.come_back(asked, has_begun)) {
    news_.tell_cycle(cycle->communicator, cycle->sequence, cycle->path);
  }
}

}  // namespace ccoll::control
