// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Decides which side copies the slices of a plan's runs, and by which way. `copy_rules` is a pure
/// function of facts; `CopyPolicy` adds what trials of this machine have shown. Knows links only by
/// their contract.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "engine/copier_choice.hpp"
#include "schedule/problem.hpp"
#include "transport/copy_costs.hpp"
#include "transport/link.hpp"

namespace ccoll {

/// The facts about one plan, on one rank, that the rules depend on.
struct CopySituation {
  bool reduces = false;
  bool sends = false;
  bool receives = false;
  bool oversubscribed = false;
  std::uint32_t ranks = 0;
  std::uint64_t input_bytes = 0;  ///< of this rank's buffers
  std::uint64_t output_bytes = 0;
  std::uint64_t cached_bytes = 0;  ///< this rank's share of the caches
  std::uint64_t slice_bytes = 0;   ///< the longest slice
  std::uint64_t call_bytes = 0;    ///< the same number on all ranks; 0 where sizes are private
};

struct CopyRules {
  /// The rank that finds the better of two ways by trials. A rank that only sends may be done
  /// before its data are read, so it cannot time a way. Its only receiver times both, and reports
  /// the better one to it.
  enum class Trial : std::uint8_t { none, own, of_the_receiver, for_the_sender };

  Copier usual = Copier::receiver;
  Copier other = Copier::sender;
  Copier in_place = Copier::receiver;  ///< without a trial, in place
  Trial trial = Trial::none;
  /// Whether `other` costs less on this machine; nothing where its costs do not tell.
  std::optional<bool> other_is_cheaper;
  LoanClass loans = 0;   ///< of a trial in which one rank follows the other
  bool streams = false;  ///< the buffers are larger than what the caches keep

  friend bool operator==(const CopyRules&, const CopyRules&) = default;
};

/// `costs`: this machine's, or null if they are not known.
CopyRules copy_rules(const CopySituation& situation, const CopyCosts* costs = nullptr);

/// The rules in words: "the receiver copies, or the sender copies; own trial".
std::string describe(const CopyRules& rules);

/// The rules of one plan, with its trials. For the links' user alone.
class CopyPolicy {
 public:
  using Outgoing = std::span<const std::pair<SendLink*, Rank>>;
  using Incoming = std::span<ReceiveLink* const>;

  void set(const CopySituation& situation, const CopyCosts* costs = nullptr);

  /// Begins a run. `counts`: the time of the run counts as that of its way. It does not count if a
  /// part of the input is yet to come, or if a buffer has rows with gaps, which are never lent.
  void begin(Outgoing to, Incoming from, bool in_place, bool counts) {
    copier_ = in_place ? rules_.in_place : rules_.usual;
    if (rules_.trial != CopyRules::Trial::none) try_ways(to, from, counts);
  }
  /// The run is over, and has not failed.
  void end() {
    if (tried_) [[unlikely]]
      choice_.end(*tried_);
  }
  /// The same, and it took so long.
  void end(CopierChoice::Clock::duration took) {
    if (tried_ && tried_->is_timed) choice_.end(*tried_, took);
  }

  Copier copier() const { return copier_; }
  bool streams() const { return rules_.streams; }
  /// Whether what this run lends is read where it lies, several slices at once.
  bool lends_much_at_once() const {
    return tried_ && copier_ == Copier::receiver &&
           rules_.trial != CopyRules::Trial::for_the_sender;
  }

 private:
  void try_ways(Outgoing to, Incoming from, bool counts);

  CopyRules rules_;
  CopierChoice choice_;  ///< among runs
  Copier copier_ = Copier::receiver;
  std::optional<CopierChoice::Transfer> tried_;
};

}  // namespace ccoll
