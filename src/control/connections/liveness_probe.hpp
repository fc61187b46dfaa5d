// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Detects ranks that may have gone unheard: a goodbye is lost if its readers leave before they can
/// pass it on. A rank that waits for such a rank asks at its listener. If some ranks are lost, one
/// that does not answer counts as lost too. On a host that vanished, ranks may be connected only to
/// each other, and nobody else notices their silence. Service thread only.

#include <asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "control/connections/absences.hpp"
#include "control/connections/caller.hpp"
#include "control/connections/edges.hpp"
#include "control/connections/tasks.hpp"
#include "control/flooding.hpp"
#include "control/state/probes.hpp"
#include "control/state/roster.hpp"
#include "control/state/stage.hpp"

namespace ccoll::control {

class LivenessProbe {
 public:
  /// `heartbeat`: Membership::heartbeat.
  LivenessProbe(std::chrono::milliseconds heartbeat, const Caller& caller, const Roster& roster,
                const Stage& stage, const Edges& edges, Absences& absences, Flooding& flooding,
                const Tasks& tasks)
      : heartbeat_(heartbeat),
        caller_(caller),
        roster_(roster),
        stage_(stage),
        edges_(edges),
        absences_(absences),
        flooding_(flooding),
        tasks_(tasks) {}

  /// As Control's.
  void probe(const std::vector<std::uint32_t>& ranks);

 private:
  bool has_limit() const { return heartbeat_.count() > 0; }
  void ask_next();
  asio::awaitable<void> ask(std::shared_ptr<void> kept, Probes::Question question);
  void over(std::uint32_t rank);
  /// Records that a rank has not answered (`silent`), or has.
  void doubt(const Probes::Question& question, bool silent);

  const std::chrono::milliseconds heartbeat_;  ///< 0: this rank has no limit
  const Caller& caller_;
  const Roster& roster_;
  const Stage& stage_;
  const Edges& edges_;
  Absences& absences_;
  Flooding& flooding_;
  const Tasks& tasks_;
  Probes probes_;
};

}  // namespace ccoll::control
