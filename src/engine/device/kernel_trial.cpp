// SPDX-License-Identifier: Apache-2.0
#include "engine/device/kernel_trial.hpp"

#include <chrono>
#include <numeric>
#include <utility>

#include "engine/device/leases.hpp"
#include "engine/device/trial.hpp"

namespace ccoll::device {
namespace {

using Clock = std::chrono::steady_clock;

/// Of each rank; in more slices than a channel has slots, so that room is waited for, too.
constexpr std::uint32_t kPatterns = 4;
constexpr std::size_t kBytes = kPatterns * kTrialBytes;
constexpr std::uint64_t kSlices = 4 * kTeamSlots;

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

Result<LoweredTeam> lowered_exchange(Rank size) {
  LowerRequest request;
  request.problem.kind = Kind::all_gather;
  request.problem.size = size;
  request.problem.count = kBytes;
  request.choice = {Algorithm::linear, 1, kBytes / kSlices};
  request.schedule = [size](Rank rank) { return exchange_of(rank, size); };
  request.lends = false;
  request.tiny_bytes = 0;
  request.devices.resize(size);
  std::iota(request.devices.begin(), request.devices.end(), 0U);
  return lower(request);
}

/// All of one rank's.
class Exchanging {
 public:
  Exchanging(GroupCalls& calls, const StreamGroupOptions& options, const GroupWords& words)
      : calls_(calls), options_(options), words_(words) {}

  Status begin(Clock::time_point limit) {
    const auto lowered = lowered_exchange(options_.size);
    CCOLL_TRY(lowered);
    CCOLL_TRY(put(calls_.load(*lowered), program_));
    CCOLL_TRY(Trial::make(kPatterns * (1 + options_.size)).map([&](auto made) {
      trial_ = std::move(made);
    }));
    for (std::uint32_t i = 0; i < kPatterns; ++i) {
      CCOLL_TRY(trial_->write(number(options_.rank, i), trial_->memory() + i * kTrialBytes, limit));
    }
    CCOLL_TRY(calls_.put({*program_, trial_->memory(), output(), trial_->stream()}));
    return trial_->mark();
  }

  Status end(Clock::time_point limit) {
    auto ended = trial_->wait(limit, "a kernel that waits for others'");
    if (!ended) ended.error().message += ": " + calls_.standing(*program_);
    CCOLL_TRY(ended);
    if (auto cause = words_.cause(options_.rank)) return tl::unexpected(std::move(*cause));
    const auto wrong = trial_->find_wrong(output(), 0, kPatterns * options_.size, limit);
    CCOLL_TRY(wrong);
    if (!*wrong) return {};
    return fail(ErrorKind::unsupported, "what rank {}'s kernel writes here is wrong",
                **wrong / kPatterns);
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
  static std::uint32_t number(Rank rank, std::uint32_t i) { return rank * kPatterns + i; }
  std::byte* output() const { return trial_->memory() + kBytes; }

  GroupCalls& calls_;
  const StreamGroupOptions& options_;
  const GroupWords words_;
  const GroupProgram* program_ = nullptr;
  std::shared_ptr<Trial> trial_;
};

}  // namespace

KernelTrial try_kernels(GroupCalls& calls, const StreamGroupOptions& options,
                        const SharedGroup& shared, Exchange::TimePoint deadline) {
  const auto limit = trial_limit(options, deadline);
  Exchanging exchanging(calls, options, shared.words());
  KernelTrial trial;
  trial.works = exchanging.begin(limit);
  if (trial.works) trial.works = exchanging.end(limit);
  if (trial.works) return trial;
  Failure& why = trial.works.error();
  trial.has_ended = exchanging.give_up(why);
  // There may be memory next time; what one cannot rely on is given up.
  if (why.kind != ErrorKind::exhausted) why.kind = ErrorKind::unsupported;
  return trial;
}

}  // namespace ccoll::device
