// SPDX-License-Identifier: Apache-2.0
#include "control/connections/heartbeat_watch.hpp"

#include <cstdint>
#include <memory>
#include <vector>

#include "control/start_up_failure.hpp"
#include "control/wire.hpp"

namespace ccoll::control {
namespace {

using std::chrono::milliseconds;

}  // namespace

void HeartbeatWatch::tell_limit(Edge& edge) {
  if (heartbeat_.has_limit()) send_beat(edge);
}

void HeartbeatWatch::send_beat(Edge& edge) {
  // Not Edges::send(): heartbeats are not counted as messages.
  edge.send(encode_beat(static_cast<std::uint32_t>(heartbeat_.limit().count())));
}

void HeartbeatWatch::keep_watch() {
  milliseconds limit = heartbeat_.limit();
  for (const auto& [peer, edge] : edges_)
    if (edge->asked() > milliseconds(0) && (limit == milliseconds(0) || edge->asked() < limit))
      limit = edge->asked();
  if (stage_.is_leaving()) return;
  const auto period = heartbeat_.begin_watch(limit);
  if (!period) return;
  timer_.expires_after(*period);
  tasks_.await(timer_, [this] { look_at_peers(); });
}

void HeartbeatWatch::look_at_peers() {
  const auto period = heartbeat_.end_watch();
  if (stage_.is_leaving()) return;
  std::vector<std::shared_ptr<Edge>> silent;
  for (const auto& [peer, edge] : edges_) {
    // After a hello, nothing is sent until it is answered.
    if (edge->is_due(period) && !edge->awaits_answer()) send_beat(*edge);
    if (stage_.has_joined() && !flooding_.news().has_left(peer) &&
        heartbeat_.is_loss(edge->silent_for()))
      silent.push_back(edge);
  }
  for (const auto& edge : silent) {
    const std::chrono::duration<double> since = tasks_.now() - edge->last_heard();
    flooding_.lose(
        edge->peer(), edge->address(),
        fmt::format("nothing has come from it for {:.1f} s (the heartbeat's limit is {})",
                    since.count(), in_seconds(heartbeat_.limit())));
  }
  keep_watch();
}

Status HeartbeatWatch::beat(Edge& edge, std::string_view body) {
  const auto limit_ms = decode_beat(body);
  if (!limit_ms) return fail(ErrorKind::corrupt, "a malformed or unexpected message (heartbeat)");
  if (milliseconds(*limit_ms) == edge.asked()) return {};
  edge.set_asked(milliseconds(*limit_ms));
  keep_watch();
  return {};
}

}  // namespace ccoll::control
