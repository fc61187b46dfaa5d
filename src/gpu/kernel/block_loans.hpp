// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where a block of the team kernel finds the slices that it receives, and whether it lends those
/// that it sends. The program says both, or each call (TeamProgram::lends_by_call). By call, the
/// sender's block announces, before a channel's first slice, in which of its memories the caller's
/// buffers lie. The receiver's block finds these among the memories that its own host has mapped.

#include <cstddef>
#include <cstdint>

#include "gpu/program/program.hpp"
#include "kernels/device/layer.hpp"
#include "kernels/device/loans.hpp"

namespace ccoll::device {

/// The place of a slice that is received, or is the rank's own.
struct SlicePlace {
  Range parts = {};           ///< empty: in its slot
  bool is_elsewhere = false;  ///< not in the launch's buffers: in one that begins at …
  std::byte* begin = nullptr;  ///< … this place; null: nowhere
  CCOLL_HOST_DEVICE constexpr bool is_in_slot() const { return parts.is_empty(); }
};

class BlockLoans {
 public:
  /// `kept`: program.loan_words() words that the block's threads share.
  CCOLL_HOST_DEVICE BlockLoans(const TeamLaunch& launch, std::uint64_t* kept)
      : launch_(launch), program_(launch.program), kept_(kept) {}

  /// Whether receivers read the step's slices where they lie.
  CCOLL_HOST_DEVICE bool lends(const TeamStep& step) const {
    if (!program_.lends_by_call || step.sends.is_empty()) return step.lends;
    // All slices of one step are lent alike.
    return is_lent_by(launch_.loans.said, program_.ends[step.sends.begin].loan);
  }
  /// Whether its rank lends any of the caller's buffers.
  CCOLL_HOST_DEVICE bool lends_any() const { return launch_.loans.said != 0; }

  /// Called by the thread that next stores the flag for a channel's first slice of the call.
  CCOLL_HOST_DEVICE void tell(std::uint64_t* flag) const {
    if (!program_.lends_by_call) return;
    store_relaxed(&flag[1], launch_.loans.said);
    if (!lends_any()) return;
    store_relaxed(&flag[2], launch_.loans.begins[0]);
    store_relaxed(&flag[3], launch_.loans.begins[1]);
  }

  /// Called by the thread that has seen that flag: keeps what was said. If the block is to stop,
  /// nobody uses that.
  CCOLL_HOST_DEVICE void hear(const TeamEnd& end, const std::uint64_t* flag) const {
    if (!program_.lends_by_call) return;
    std::uint64_t* const kept = kept_of(end);
    const std::uint64_t said = kept[0] = load_relaxed(&flag[1]);
    if (said == 0) return;
    // The places are in host memory: all loads are in flight at once, also for a buffer not lent.
    const LoanPlace* const places =
        launch_.loans.places + std::uint64_t{program_.channels[end.channel].from} * kLoanPlaces;
    const std::uint64_t input = find_loan(places, TeamLoans::half(said, 0)),
                        output = find_loan(places, TeamLoans::half(said, 1)),
                        input_begins = load_relaxed(&flag[2]),
                        output_begins = load_relaxed(&flag[3]);
    kept[1] = input == 0 ? 0 : input + input_begins;
    kept[2] = output == 0 ? 0 : output + output_begins;
  }

  /// The place of a received slice; hear() must come before.
  CCOLL_HOST_DEVICE SlicePlace place_of(const TeamEnd& end) const {
    if (!program_.lends_by_call) return {end.lent};
    const std::uint64_t* const kept = kept_of(end);
    if (!is_lent_by(kept[0], end.loan)) return {};
    if (is_in_workspace(end.loan)) return {end.loan.parts};
    return {end.loan.parts, true, reinterpret_cast<std::byte*>(kept[1 + end.loan.buffer % 2])};
  }

  /// Null for memory that its owner has taken back meanwhile, which it must not do: so the kernel
  /// fails rather than read something else.
  CCOLL_HOST_DEVICE std::byte* address_of(const SlicePlace& from, const TeamPart& part,
                                          std::uint64_t window) const {
    if (!from.is_elsewhere) return launch_.address_of(part, window);
    return from.begin == nullptr ? nullptr : from.begin + program_.offset_of(part, window);
  }

 private:
  CCOLL_HOST_DEVICE bool is_lent_by(std::uint64_t said, const TeamLoan& loan) const {
    if (!loan.is_any()) return false;
    if (is_in_workspace(loan)) return !loan.if_separate;
    return is_lent(TeamLoans::half(said, loan.buffer), loan.if_separate);
  }
  CCOLL_HOST_DEVICE bool is_in_workspace(const TeamLoan& loan) const {
    return loan.buffer >= program_.workspace;
  }
  /// The value that the channel's sender said, then where its buffers begin accordingly.
  CCOLL_HOST_DEVICE std::uint64_t* kept_of(const TeamEnd& end) const {
    return kept_ + TeamProgram::kEndLoanWords * end.number;
  }

  const TeamLaunch& launch_;
  const TeamProgram& program_;
  std::uint64_t* const kept_;
};

}  // namespace ccoll::device
