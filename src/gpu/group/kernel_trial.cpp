// SPDX-License-Identifier: Apache-2.0
#include "gpu/group/kernel_trial.hpp"

#include <chrono>
#include <numeric>
#include <string_view>
#include <utility>

#include "gpu/cuda/trial.hpp"
#include "gpu/staging/leases.hpp"

namespace ccoll::device {
namespace {

using Clock = std::chrono::steady_clock;

/// Patterns that each rank sends in one call through slots; as many more go by words, one a call.
constexpr std::uint32_t kPatterns = 4;
constexpr std::size_t kBytes = kPatterns * kTrialBytes;
/// A channel has fewer slots, so the trial waits for room, too.
constexpr std::uint64_t kSlices = 4 * kTeamSlots;
static_assert(kTrialBytes <= kTinyBytes);

/// Each rank sends its block to all others.
Program exchange_of(Rank rank, Rank size) {
  Lane lane;
  Step sends;
  sends.local = {{Buffer::input, rank, 1}};
  sends.store = {{Buffer::output, rank, 1}};
  lane.steps.push_back(sends);
  for (Rank peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    lane.steps.front().sends.push_back(peer);
    Step receives;
    receives.receives = {{peer, 0}};
    receives.store = {{Buffer::output, peer, 1}};
    lane.steps.push_back(receives);
  }
  return {.rank = rank, .size = size, .blocks = size, .stripes = 1, .lanes = {lane}};
}

Result<LoweredTeam> lowered_exchange(Rank size, bool by_words) {
  LowerRequest request;
  request.problem.kind = Kind::all_gather;
  request.problem.size = size;
  request.problem.count = by_words ? kTrialBytes : kBytes;
  request.choice = {Algorithm::linear, 1, by_words ? kTrialBytes : kBytes / kSlices};
  request.schedule = [size](Rank rank) { return exchange_of(rank, size); };
  request.in_place.assign(size, true);
  request.lends = false;
  if (!by_words) request.tiny_bytes = 0;
  request.devices.resize(size);
  std::iota(request.devices.begin(), request.devices.end(), 0U);
  auto lowered = lower(request);
  if (lowered && lowered->program.by_words != by_words)
    return fail(ErrorKind::internal, "a trial by words got a program by slots, or the reverse");
  return lowered;
}

/// One rank's part of the trial.
class Exchanging {
 public:
  Exchanging(GroupCalls& calls, const StreamGroupOptions& options, const GroupWords& words)
      : calls_(calls), options_(options), words_(words) {}

  Status run(Clock::time_point limit) {
    CCOLL_TRY(prepare(limit));
    CCOLL_TRY(calls_.put({*by_slots_, input(0), output(0), trial_->stream()}));
    CCOLL_TRY(end(*by_slots_, "a kernel that waits for others'", limit));
    auto wrong = trial_->find_wrong(output(0), 0, all(), limit);
    CCOLL_TRY(wrong);
    if (*wrong) return is_wrong(**wrong / kPatterns, "");
    // These follow one another, so that each meets what the one before has left.
    for (std::uint32_t i = 0; i < kPatterns; ++i) {
      const std::uint32_t at = kPatterns + i;
      CCOLL_TRY(calls_.put({*by_words_, input(at), output(at), trial_->stream()}));
    }
    CCOLL_TRY(end(*by_words_, "a kernel that waits for others' words", limit));
    wrong = trial_->find_wrong(output(kPatterns), all(), all(), limit);
    CCOLL_TRY(wrong);
    return *wrong ? is_wrong(**wrong % options_.size, " by words") : Status();
  }

  /// False where something goes on after all.
  bool give_up(const Failure& why) {
    words_.give_up(options_.rank, why);
    words_.release();
    if (trial_ == nullptr || (trial_->mark() && trial_->wait(Clock::now() + kGrace, "")))
      return true;
    keep_for_ever(std::move(trial_));
    return false;
  }

 private:
  Status prepare(Clock::time_point limit) {
    for (const bool by_words : {false, true}) {
      const auto lowered = lowered_exchange(options_.size, by_words);
      CCOLL_TRY(lowered);
      CCOLL_TRY(put(calls_.load(*lowered), by_words ? by_words_ : by_slots_));
    }
    CCOLL_TRY(
        Trial::make(2 * (kPatterns + all())).map([&](auto made) { trial_ = std::move(made); }));
    for (std::uint32_t i = 0; i < kPatterns; ++i) {
      // The order is that in which they come into the outputs.
      const std::uint32_t slots = options_.rank * kPatterns + i;
      const std::uint32_t words = all() + i * options_.size + options_.rank;
      CCOLL_TRY(trial_->write(slots, input(i), limit));
      CCOLL_TRY(trial_->write(words, input(kPatterns + i), limit));
    }
    return {};
  }

  Status end(const GroupProgram& last, std::string_view what, Clock::time_point limit) {
    CCOLL_TRY(trial_->mark());
    auto ended = trial_->wait(limit, what);
    if (!ended) ended.error().message += ": " + calls_.standing(last);
    CCOLL_TRY(ended);
    if (auto cause = words_.cause(options_.rank)) return tl::unexpected(std::move(*cause));
    return {};
  }

  static Status is_wrong(std::uint32_t rank, std::string_view how) {
    return fail(ErrorKind::unsupported, "what rank {}'s kernel writes here{} is wrong", rank, how);
  }

  /// The patterns of all ranks of either kind.
  std::uint32_t all() const { return kPatterns * options_.size; }
  /// The rank's `i`-th pattern of both kinds.
  std::byte* input(std::uint32_t i) const { return trial_->memory() + i * kTrialBytes; }
  /// Where the `i`-th patterns of all ranks begin.
  std::byte* output(std::uint32_t i) const { return input(2 * kPatterns + i * options_.size); }

  GroupCalls& calls_;
  const StreamGroupOptions& options_;
  const GroupWords words_;
  const GroupProgram* by_slots_ = nullptr;
  const GroupProgram* by_words_ = nullptr;
  std::shared_ptr<Trial> trial_;
};

}  // namespace

KernelTrial try_kernels(GroupCalls& calls, const StreamGroupOptions& options,
                        const SharedGroup& shared, Exchange::TimePoint deadline) {
  const auto limit = trial_limit(options, deadline);
  Exchanging exchanging(calls, options, shared.words());
  KernelTrial trial;
  trial.works = exchanging.run(limit);
  if (trial.works) return trial;
  Failure& why = trial.works.error();
  trial.has_ended = exchanging.give_up(why);
  // There may be memory next time. After any other failure kernels are given up.
  if (why.kind != ErrorKind::exhausted) why.kind = ErrorKind::unsupported;
  return trial;
}

}  // namespace ccoll::device
