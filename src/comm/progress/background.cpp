// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/background.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "comm/progress/progress.hpp"
#include "comm/progress/spin_policy.hpp"
#include "core/deadline.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

/// How often the service thread looks at its other duties.
constexpr std::chrono::microseconds kTurn{200};
/// How long polling threads leave the owner flag to a turn that found it taken. A program that asks
/// again and again whether its call is over would otherwise hold it at each try of the turn.
constexpr std::chrono::microseconds kCourtesy{100};

/// Backgrounds of this process that have something under way; one thread serves all.
struct BusyBackgrounds {
  std::atomic<int> count{0};
};
std::atomic<int>& busy_backgrounds() { return Runtime::one<BusyBackgrounds>().count; }

/// Makes the scheduler place this thread anew. If every core was busy when it woke this thread, it
/// may leave it beside another rank's for milliseconds. The core of a caller that sleeps meanwhile
/// is idle then.
/// With it, an all_reduce of 1 MiB whose caller sleeps meanwhile takes 1.10 times as long as one
/// that is waited for, without it 1.88 (cc-bench --overlap, two ranks on two cores of an AMD EPYC).
void go_to(int core) {
  cpu_set_t allowed, there;
  if (core == sched_getcpu() || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&there);
  CPU_SET(core, &there);
  if (sched_setaffinity(0, sizeof there, &there) == 0)
    sched_setaffinity(0, sizeof allowed, &allowed);
}

/// Gives the owner flag back, however a turn ends.
struct EndOfTurn {
  Progress& progress;
  std::atomic<bool>& scheduled;
  Owned owned;
  ~EndOfTurn() {
    // Not earlier: until now, a thread that releases the flag leaves its work to this turn.
    scheduled.store(false);
    progress.disown(owned);
  }
};

}  // namespace

std::shared_ptr<Background> Background::make(asio::io_context& context,
                                             const std::shared_ptr<Progress>& progress,
                                             std::shared_ptr<Waiter> waiter, Now now) {
  return std::shared_ptr<Background>(new Background(context, progress, std::move(waiter), now));
}

Background::Background(asio::io_context& context, const std::shared_ptr<Progress>& progress,
                       std::shared_ptr<Waiter> waiter, Now now)
    : context_(context),
      progress_(progress),
      now_(now),
      waiter_(std::move(waiter)),
      watch_(context_),
      timer_(context_) {}

Background::~Background() {
  stop_watching();
  set_busy(false);
}

void Background::set_busy(bool busy) {
  if (busy_.exchange(busy) != busy) busy_backgrounds() += busy ? 1 : -1;
}

void Background::schedule() noexcept {
  if (scheduled_.exchange(true)) return;
  set_busy(true);
  try {
    asio::post(context_, [self = shared_from_this(), core = sched_getcpu()] {
      if (self->is_beside_busy_cores()) go_to(core);
      self->turn();
    });
  } catch (...) {
    // No memory: the next owner tries again.
    scheduled_.store(false);
  }
}

bool Background::is_beside_busy_cores() const {
  const auto progress = progress_.lock();
  return progress && progress->cores().are_filled && busy_backgrounds() == 1;
}

bool Background::is_due() const {
  const auto denied = denied_.load(std::memory_order_relaxed);
  return denied != kNever && now_() - denied < kCourtesy;
}

void Background::stop() {
  asio::post(context_, [self = shared_from_this()] {
    self->stopped_ = true;
    self->stop_watching();
    self->timer_.cancel();
  });
}

void Background::turn() {
  scheduled_.store(true);
  set_busy(true);
  // Otherwise every message of a call that a thread waits for would wake this one as well.
  stop_watching();
  const auto progress = stopped_ ? nullptr : progress_.lock();
  // Another holder of the flag makes progress itself, and schedules a turn if something is left. A
  // polling thread holds it again and again, each time for a moment. One try would often fall into
  // such a moment and end the turn; many tries find the gap between two.
  constexpr int kTries = 1000;
  std::optional<Owned> owned;
  for (int tries = 0; progress && !owned && tries < kTries; tries++) owned = progress->try_own();
  if (!owned) {
    if (progress) denied_.store(now_());
    scheduled_.store(false);
    // A thread that released the flag before found this turn scheduled, and scheduled none.
    if (progress) owned = progress->try_own();
    if (!owned) return set_busy(false);
  }
  denied_.store(kNever);
  bool go_on = false;
  {
    const EndOfTurn end{*progress, scheduled_, *owned};
    try {
      go_on = turn(*owned, *progress);
    } catch (...) {
      progress->operations().threw(*owned, failure_of(std::current_exception()));
    }
  }
  if (progress->is_forked()) {
    // This is a child that a caller's function has forked, and let return: it has nobody to return
    // to, and the descriptors that this thread would watch are the parent's.
    dprintf(STDERR_FILENO,
            "ccoll: process %d, forked in a reduction that ran in the background, ends\n",
            getpid());
    std::_Exit(EXIT_FAILURE);
  }
  // A thread that reported a stream since found this turn scheduled, and scheduled none.
  if (go_on || progress->operations().has_reached())
    schedule();
  else if (!sleeps())
    set_busy(false);
}

bool Background::turn(Owned owned, Progress& progress) {
  auto& operations = progress.operations();
  progress.awake(owned);
  progress.waiter().sleep(std::chrono::nanoseconds(0));  // takes the events, does not wait
  const auto end = progress.now() + kTurn;
  // Between two slices of a call, other ranks take less time than sleeping and waking does, unless
  // they wait for this thread.
  auto patience =
      progress.cores().are_oversubscribed ? SpinPolicy::short_one(true, false) : SpinPolicy(false);
  bool moved = true;
  const auto goes_on = [&] {
    return moved || (busy_backgrounds() == 1 && patience.keep_polling());
  };
  while (goes_on() && operations.busy(owned) && !progress.is_wanted() && progress.now() < end) {
    moved = operations.advance(owned, Attention::awaited);
    if (moved) patience.reset();
  }
  // A thread that wants the flag goes on, and schedules a turn if something is left.
  if (!operations.busy(owned) || progress.is_wanted()) return false;
  const auto next = operations.supervise(owned, progress.now());
  if (!moved) {
    progress.waiter().prepare();
    moved = operations.advance(owned, Attention::everyone);
  }
  if (!operations.busy(owned)) return false;
  if (moved || !sleep_until(next, progress.now())) return true;
  progress.background_sleeps(owned);
  return false;
}

bool Background::sleep_until(Clock::time_point next, Clock::time_point now) {
  place_ = waiter_->place();
  if (waiter_->rung()) {
    place_ = {};
    return false;
  }
  const auto wake = [self = shared_from_this()](const std::error_code& code) {
    if (!code) self->turn();
  };
  if (place_.descriptor() >= 0) {
    watch_.assign(place_.descriptor());
    watch_.async_wait(asio::posix::stream_descriptor::wait_read, wake);
  } else {
    next = std::min(next, deadline_after(Waiter::kNap, now));
  }
  // The timer goes by the Clock.
  timer_.expires_at(deadline_after(next - now));
  timer_.async_wait(wake);
  sleeps_until_.store(next);
  return true;
}

void Background::stop_watching() {
  sleeps_until_.store(kAwake);
  if (watch_.is_open()) watch_.release();
  place_ = {};
}

}  // namespace ccoll
