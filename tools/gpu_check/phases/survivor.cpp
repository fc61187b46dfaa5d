// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/phases/survivor.hpp"

#include <unistd.h>

#include <csignal>
#include <optional>
#include <random>
#include <thread>

#include "ccoll/communicator.hpp"
#include "gpu_check/phases/graph.hpp"
#include "gpu_check/phases/known_calls.hpp"
#include "kernels/device/launch.hpp"

namespace ccoll::gpu_check {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kReason = "the phase says so";
constexpr const char* kGone = "gone";
constexpr std::chrono::milliseconds kHeartbeat = 2s, kDeadline = 2s;
/// Added to the limit that detects the fault itself, for slow machines.
constexpr std::chrono::seconds kSlack{10};
constexpr int kFaultRounds = 100'000;
constexpr int kRoundsAfter = 20;

/// The limit that detects the fault.
std::chrono::milliseconds limit_of(Fault fault) {
  return fault == Fault::stopped ? kHeartbeat : fault == Fault::absent ? kDeadline : 0ms;
}

bool comes_back(Fault fault) { return fault == Fault::absent || fault == Fault::aborted; }

/// The kind of error that the others get.
std::string_view kind_of(Fault fault) {
  return fault == Fault::absent ? "timed_out" : fault == Fault::aborted ? "aborted" : "peer_lost";
}

class FaultyRank {
 public:
  FaultyRank(const FaultCase& what, int rank, std::shared_ptr<Store> store, Watchdog& watchdog)
      : what_(what),
        rank_(rank),
        store_(std::move(store)),
        watchdog_(watchdog),
        stream_(value_or_throw(device::make_stream())),
        memory_(value_or_throw(device::allocate_on_device(4 * kWords))),
        calls_(500, what.size, kRoundsAhead) {}

  Survival run() {
    CommunicatorOptions options;
    options.device.ordinal = 0;
    options.timeout = what_.fault == Fault::absent ? kDeadline : 30s;
    if (what_.fault == Fault::stopped) options.heartbeat = kHeartbeat;
    auto communicator = Communicator::create(store_, rank_, what_.size, options);
    for (int round = 0; round < 3; round++) play(communicator, round);
    std::jthread second;
    if (rank_ == what_.victim) second = suffer(communicator);
    await_error(communicator);
    judge_error(communicator);
    judge_device();
    go_on(communicator);
    return std::move(found_);
  }

 private:
  static constexpr std::uint32_t kWords = 4096;
  static constexpr int kRoundsAhead = 64;

  void judge(bool right, const std::string& what) {
    found_.tried++;
    if (!right && found_.wrong.size() < 10)
      found_.wrong.push_back(fmt::format("rank {} of {}, rank {} {}: {}", rank_, what_.size,
                                         what_.victim, to_string(what_.fault), what));
  }

  /// A round whose results are checked unless the communicator has broken meanwhile.
  void play(Communicator& communicator, int round) {
    calls_.put(round % kRoundsAhead, communicator.rank(), communicator.size(), stream_.get());
    calls_.call(communicator, stream_.get());
    const auto wrong = calls_.wrong(stream_.get());
    if (communicator.error().empty()) judge(wrong.empty(), wrong);
  }

  /// The victim's fault, at some moment in the middle of calls.
  std::jthread suffer(Communicator& communicator) {
    if (what_.fault == Fault::absent) {
      tell_gone();
      return {};
    }
    const auto delay = std::chrono::microseconds(std::mt19937_64(what_.seed)() % 5000);
    return std::jthread([this, &communicator, delay] {
      std::this_thread::sleep_for(delay);
      tell_gone();
      if (what_.fault == Fault::aborted) return communicator.abort(kReason);
      kill(getpid(), what_.fault == Fault::killed ? SIGKILL : SIGSTOP);
    });
  }

  void tell_gone() { store_->set(kGone, std::to_string(Clock::now().time_since_epoch() / 1us)); }

  void await_error(Communicator& communicator) {
    watchdog_.at(fmt::format("rank {}'s wait for an error", rank_));
    const bool calls = rank_ != what_.victim || what_.fault != Fault::absent;
    try {
      for (int round = 3; round < kFaultRounds && communicator.error().empty(); round++) {
        if (calls)
          play(communicator, round);
        else
          std::this_thread::sleep_for(1ms);
      }
    } catch (const Error&) {  // the next call reports it again
    }
    const auto now = Clock::now().time_since_epoch() / 1us;
    found_.error_after_s = 1e-6 * static_cast<double>(now - std::stoll(store_->get(kGone, 20s)));
  }

  void judge_error(Communicator& communicator) {
    std::string kind = "none";
    try {
      communicator.barrier();
    } catch (const Error& error) {
      kind = to_string(error.kind());
      found_.said = error.what();
    }
    const auto bound = std::chrono::duration<double>(limit_of(what_.fault) + kSlack);
    judge(found_.error_after_s <= bound.count(),
          fmt::format("the error came after {:.1f} s, expected within {:.0f} s",
                      found_.error_after_s, bound.count()));
    judge(kind == kind_of(what_.fault), fmt::format("an error of kind {}, expected {}: {}", kind,
                                                    kind_of(what_.fault), found_.said));
    judge(found_.said.find(fmt::format("rank {}", what_.victim)) != std::string::npos,
          "its error does not name that rank: " + found_.said);
    if (what_.fault == Fault::aborted)
      judge(found_.said.find(kReason) != std::string::npos,
            "its error lacks the reason that was given: " + found_.said);
  }

  /// A copy, a kernel and a copy.
  void judge_device() {
    watchdog_.at(fmt::format("rank {}'s work on the GPU after the error", rank_));
    std::vector<std::uint32_t> words(kWords), expected(kWords);
    for (std::uint32_t i = 0; i < kWords; i++) expected[i] = 2 * (words[i] = 3 * i + 1);
    std::byte* const there = memory_.get();
    check(cudaMemcpyAsync(there, words.data(), 4 * kWords, cudaMemcpyHostToDevice, stream_.get()),
          "copying to the GPU");
    const std::byte* const sources[] = {there, there};
    value_or_throw(device::launch_combine(DataType::uint32, ReduceOp::sum, sources, there, kWords,
                                          1, {4, 256}, stream_.get()));
    check(cudaMemcpyAsync(words.data(), there, 4 * kWords, cudaMemcpyDeviceToHost, stream_.get()),
          "copying from the GPU");
    check(cudaStreamSynchronize(stream_.get()), "work on the GPU after the error");
    judge(words == expected, "afterwards the GPU computes wrongly");
  }

  void go_on(Communicator& communicator) {
    watchdog_.at(fmt::format("rank {}'s shrink()", rank_));
    GroupOptions options;
    options.timeout = 30s;
    auto left = communicator.shrink(options);
    const int expected = comes_back(what_.fault) ? what_.size : what_.size - 1;
    judge(left.size() == expected,
          fmt::format("{} ranks are left, expected {}", left.size(), expected));
    for (int round = 0; round < kRoundsAfter; round++) {
      watchdog_.at(fmt::format("rank {}'s calls after shrink()", rank_));
      play(left, round);
    }
    judge(left.error().empty(), "what shrink() made is broken: " + left.error());
    // Freeing memory waits for all streams of the process, so all must be done first.
    left.barrier();
  }

  const FaultCase what_;
  const int rank_;
  const std::shared_ptr<Store> store_;
  Watchdog& watchdog_;
  Survival found_;
  device::OwnStream stream_;
  device::DeviceMemory memory_;
  KnownCalls calls_;
};

}  // namespace

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::killed:
      return "killed";
    case Fault::stopped:
      return "stopped";
    case Fault::absent:
      return "absent";
    case Fault::aborted:
      return "aborted";
  }
  return "";
}

Survival run_through(const FaultCase& what, int rank, const std::shared_ptr<Store>& store,
                     Watchdog& watchdog) {
  try {
    return FaultyRank(what, rank, store, watchdog).run();
  } catch (const std::exception& error) {
    Survival survival;
    survival.wrong.push_back(fmt::format("rank {} of {}, rank {} {}: {}", rank, what.size,
                                         what.victim, to_string(what.fault), error.what()));
    return survival;
  }
}

}  // namespace ccoll::gpu_check
