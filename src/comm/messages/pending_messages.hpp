// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The sends, receives and probes under way: each is begun once and completed once. Both are shown
/// to the flight recorder and to traces. Knows no link, and no matching.

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/messages/message_operation.hpp"
#include "comm/record/flight_recorder.hpp"
#include "comm/record/tracing.hpp"
#include "core/result.hpp"

namespace ccoll {

class PendingMessages {
 public:
  /// Makes a failure what the caller of an operation with that label is to see.
  using ForCaller = std::function<Failure(Failure failure, std::string_view label)>;

  explicit PendingMessages(ForCaller for_caller) : for_caller_(std::move(for_caller)) {}
  /// Reports operations that begin to `recorder`, and those that are over to `tracing`, unless that
  /// is null.
  void record(FlightRecorder* recorder, Tracing* tracing) {
    recorder_ = recorder;
    tracing_ = tracing;
  }

  void begin(const std::shared_ptr<MessageOperation>& operation);
  /// One that was for any rank is for that one from here on.
  void name_peer(MessageOperation& operation, Rank peer);
  void complete(MessageOperation& operation, std::optional<Failure> failure = std::nullopt);
  /// Fails all of them. No other may begin.
  void end_all(const Failure& failure);

  /// In no order.
  const std::vector<std::shared_ptr<MessageOperation>>& all() const { return all_; }
  /// How many of them are sends.
  std::size_t sends() const { return sends_; }
  /// How many name that rank, which none may do before the first call of this for it. The reference
  /// stays valid.
  const std::size_t& count_with(Rank peer) {
    if (counts_.size() <= peer) counts_.resize(peer + 1);
    return counts_[peer];
  }

  // A round is one look at all links.
  void begin_round() { has_moved_ = false; }
  /// Notes whether something has moved.
  void note(bool moved) { has_moved_ |= moved; }
  /// Whether anything has in this round. A completed operation counts.
  bool has_moved() const { return has_moved_; }

 private:
  const ForCaller for_caller_;
  FlightRecorder* recorder_ = nullptr;
  Tracing* tracing_ = nullptr;
  std::vector<std::shared_ptr<MessageOperation>> all_;  // owns what all queues point to
  std::deque<std::size_t> counts_;                      // by rank; elements stay where they are
  std::size_t sends_ = 0;
  bool has_moved_ = false;
};

}  // namespace ccoll
