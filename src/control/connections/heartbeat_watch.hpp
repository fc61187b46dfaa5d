// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Detects a peer that is gone although its connections never close: it was stopped, its host
/// vanished, a cable was pulled. Each end of a control connection sends something at least every
/// fifth of the limit, and counts the other as lost after nine tenths of silence. Silence is
/// measured by an end's own checks. So a process that was itself stopped, or had no processor, has
/// lost nobody when it goes on. Its peers get as much time as if it had not been away.
///
/// It costs a rank of any job one timer, and at most five frames of 10 bytes either way per tenth
/// of the limit. Only connections that are otherwise silent carry them. Service thread only.

#include <asio/steady_timer.hpp>
#include <chrono>
#include <string_view>

#include "control/connections/edges.hpp"
#include "control/connections/tasks.hpp"
#include "control/flooding.hpp"
#include "control/state/heartbeat.hpp"
#include "control/state/stage.hpp"
#include "core/result.hpp"

namespace ccoll::control {

class HeartbeatWatch {
 public:
  /// `limit`: Membership::heartbeat.
  HeartbeatWatch(std::chrono::milliseconds limit, const Stage& stage, const Edges& edges,
                 Flooding& flooding, const Tasks& tasks)
      : heartbeat_(limit),
        stage_(stage),
        edges_(edges),
        flooding_(flooding),
        tasks_(tasks),
        timer_(tasks.context()) {}

  /// For a new connection: sends the peer this rank's limit, if it has one.
  void tell_limit(Edge& edge);
  /// Keeps checking the connections, if this rank or a peer has a limit.
  void keep_watch();
  /// A peer's heartbeat has come.
  Status beat(Edge& edge, std::string_view body);
  /// The check for which keep_watch() sets a timer.
  void look_at_peers();
  void stop() { timer_.cancel(); }

 private:
  void send_beat(Edge& edge);

  Heartbeat heartbeat_;
  const Stage& stage_;
  const Edges& edges_;
  Flooding& flooding_;
  const Tasks& tasks_;
  asio::steady_timer timer_;
};

}  // namespace ccoll::control
