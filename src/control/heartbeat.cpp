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

constexpr int kLooks = 10;  ///< checks per limit; one of them is slack

}  // namespace

void Hub::tell_limit(Edge& edge) {
  if (heartbeat_ > milliseconds(0)) send_beat(edge);
}

void Hub::send_beat(Edge& edge) {
  // Not send(): heartbeats are not counted as messages.
  edge.send(encode_beat(static_cast<std::uint32_t>(heartbeat_.count())));
}

void Hub::keep_watch() {
  milliseconds limit = heartbeat_;
  for (const auto& [peer, edge] : edges_)
    if (edge->asked() > milliseconds(0) && (limit == milliseconds(0) || edge->asked() < limit))
      limit = edge->asked();
  const auto period = limit == milliseconds(0) ? limit : std::max(limit / kLooks, milliseconds(1));
  if (leaving_ || period == milliseconds(0) || (watching_ && period == period_)) return;
  watching_ = true;
  period_ = period;
  watch_timer_.expires_after(period_);
  watch_timer_.async_wait(handler([](Hub& hub) { hub.look_at_peers(); }));
}

void Hub::look_at_peers() {
  watching_ = false;
  if (leaving_) return;
  const bool counts = heartbeat_ > milliseconds(0) && outcome_ && *outcome_;
  std::vector<std::shared_ptr<Edge>> silent;
  for (const auto& [peer, edge] : edges_) {
    // After a hello, nothing is sent until it is answered.
    if (edge->is_due(period_) && edge != calling_) send_beat(*edge);
    if (counts && !news_.has_left(peer) && edge->silent_for() >= heartbeat_ - heartbeat_ / kLooks)
      silent.push_back(edge);
  }
  for (const auto& edge : silent) {
    const std::chrono::duration<double> since = Clock::now() - edge->last_heard();
    lose(edge->peer(), edge->address(),
         fmt::format("nothing has come from it for {:.1f} s (the heartbeat's limit is {})",
                     since.count(), in_seconds(heartbeat_)));
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
