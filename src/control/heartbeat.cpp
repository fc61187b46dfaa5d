// SPDX-License-Identifier: Apache-2.0
/// Detects a peer that is gone although its connections never close: it was stopped, its host
/// vanished, a cable was pulled. Each end of a control connection sends something at least every
/// tenth of the limit, and counts the other as lost after nine tenths of silence. Silence is
/// measured by an end's own checks. So a process that was itself stopped, or had no processor, has
/// lost nobody when it goes on. Its peers get as much time as if it had not been away.
///
/// It costs a rank of any job one timer, and at most five frames of 10 bytes either way per tenth
/// of the limit. Only connections that are otherwise silent carry them.

#include <algorithm>

#include "control/hub.hpp"

namespace ccoll::control {
namespace {

using std::chrono::milliseconds;

}  // namespace

void Hub::tell_limit(Edge& edge) {
  if (heartbeat_.has_limit()) send_beat(edge);
}

void Hub::send_beat(Edge& edge) {
  // Not send(): heartbeats are not counted as messages.
  edge.send(encode_beat(static_cast<std::uint32_t>(heartbeat_.limit().count())));
}

void Hub::keep_watch() {
  milliseconds limit = heartbeat_.limit();
  for (const auto& [peer, edge] : edges_)
    if (edge->asked() > milliseconds(0) && (limit == milliseconds(0) || edge->asked() < limit))
      limit = edge->asked();
  if (stage_.is_leaving()) return;
  const auto period = heartbeat_.begin_watch(limit);
  if (!period) return;
  watch_timer_.expires_after(*period);
  tasks_.await(watch_timer_, [this] { look_at_peers(); });
}

void Hub::look_at_peers() {
  const auto period = heartbeat_.end_watch();
  if (stage_.is_leaving()) return;
  std::vector<std::shared_ptr<Edge>> silent;
  for (const auto& [peer, edge] : edges_) {
    // After a hello, nothing is sent until it is answered.
    if (edge->is_due(period) && edge != calling_) send_beat(*edge);
    if (stage_.has_joined() && !news_.has_left(peer) && heartbeat_.is_loss(edge->silent_for()))
      silent.push_back(edge);
  }
  for (const auto& edge : silent) {
    const std::chrono::duration<double> since = Clock::now() - edge->last_heard();
    flooding_.lose(
        edge->peer(), edge->address(),
        fmt::format("nothing has come from it for {:.1f} s (the heartbeat's limit is {})",
                    since.count(), in_seconds(heartbeat_.limit())));
  }
  keep_watch();
}

Status Hub::beat(Edge& edge, std::string_view body) {
  const auto limit_ms = decode_beat(body);
  if (!limit_ms) return fail(ErrorKind::corrupt, "a malformed or unexpected message (heartbeat)");
  if (milliseconds(*limit_ms) == edge.asked()) return {};
  edge.set_asked(milliseconds(*limit_ms));
  keep_watch();
  return {};
}

}  // namespace ccoll::control
