// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's memory of its calls and messages, for dumps, traces and errors.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/progress/owner_flag.hpp"
#include "comm/record/dump/dump.hpp"
#include "comm/record/flight_recorder.hpp"
#include "comm/record/history.hpp"
#include "comm/record/labels.hpp"
#include "comm/record/losses.hpp"
#include "comm/record/times.hpp"
#include "comm/record/tracing.hpp"
#include "system/locks.hpp"

namespace ccoll {

/// The last calls with their labels, the last messages, the losses to other ranks, the trace, and
/// the dump file with the requests for one. The holder of the owner flag writes the record; a
/// method that other threads may call says so.
class Record {
 public:
  using Whose = Tracing::Whose;
  /// Operations that are not over, and how many collectives are finished on the host's side.
  struct Standing {
    std::uint64_t finished = 0;
    std::vector<dump::UnderWay> under_way = {};
    std::set<std::uint64_t> on_device = {};  ///< those that devices have yet to end
  };
  /// Reasons of dumps: this communicator has failed, or another one of its rank.
  static constexpr std::string_view kFailureDump = "failure";
  static constexpr std::string_view kBesideDump = "beside";

  explicit Record(Whose whose) : whose_(std::move(whose)) {}
  /// Begins what the environment asks for: a trace, and dumps in files. `host_of` is the host of
  /// each rank.
  void begin(std::vector<std::uint32_t> host_of);

  /// Any thread may read these.
  const History& history() const { return history_; }
  Labels& labels() { return labels_; }
  const Labels& labels() const { return labels_; }

  /// When a message begins, for message_is_over(); 0 if nothing is traced. Any thread may ask.
  std::uint64_t trace_time() const { return tracing_ != nullptr ? trace::now() : 0; }
  /// The clocks when it began.
  const Clocks& clocks() const { return clocks_; }
  Times times() const { return Times(clocks_); }

  void call_begins(Owned /*owned*/, const Signature& signature) { history_.record(signature); }
  /// For a call that was not over at once.
  void call_ended(Owned owned, std::uint64_t number) { recorder_(owned).call_ended(number); }
  FlightRecorder& recorder(Owned owned) { return recorder_(owned); }
  /// Null if nothing is traced.
  Tracing* tracing(Owned /*owned*/) { return tracing_.get(); }
  /// Records a message that was over at once.
  void message_is_over(Owned owned, const Tracing::Message& message) {
    recorder_(owned).message(message.is_send, message.bytes, message.peer, message.tag,
                             message.type, FlightRecorder::State::ended);
    if (tracing_ != nullptr) tracing_->message(message);
  }

  Losses& losses(Owned owned) { return losses_(owned); }
  /// Notes a sleep; `awaited` may have a rank twice.
  void slept(Owned owned, std::vector<Rank> awaited, std::chrono::nanoseconds time) noexcept;

  /// Keeps how operations stood when the communicator broke, which ends them.
  void keep(Owned owned, Standing standing) { at_break_(owned) = std::move(standing); }
  const std::optional<Standing>& kept(Owned owned) const { return at_break_(owned); }

  /// A dump of what is known without the owner flag. Any thread may call it.
  dump::Dump dump_of_calls(std::string_view reason) const;
  dump::Dump dump(Owned owned, std::string_view reason, const Standing& standing,
                  std::optional<dump::Failed> failure) const;

  /// Whether dumps are written to files.
  bool has_file() const { return !directory_.empty(); }
  std::string path() const;
  /// Any thread may ask for a dump; the last reason counts.
  void request(std::string reason);
  bool is_requested() const { return requested_.load(std::memory_order_acquire); }
  std::string requested_reason() const;
  void end_request() { requested_.store(false, std::memory_order_relaxed); }
  /// Whether a dump for that reason is to be written: the first failure's dump is not replaced by
  /// those of later failures.
  bool admits(std::string_view reason);
  bool has_dumped_failure() const { return failure_dumped_; }
  /// Warns once in a process if it cannot be written.
  void write(const dump::Dump& made) const;

  /// In a forked child, where the threads that held the locks may be gone.
  void forget_locks();

 private:
  const Whose whose_;
  const Clocks clocks_ = Clocks::now();
  std::unique_ptr<Tracing> tracing_;
  OwnersOnly<FlightRecorder> recorder_;
  OwnersOnly<Losses> losses_;
  History history_;
  Labels labels_;
  OwnersOnly<std::optional<Standing>> at_break_;
  std::string directory_;  // immutable after begin
  std::atomic<bool> requested_{false};
  std::atomic<bool> failure_dumped_{false};
  Guarded<std::string> reason_;  ///< of the last request
};

}  // namespace ccoll
