// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/background.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cstdio>
#include <cstdlib>

#include "comm/api/implementation.hpp"
#include "comm/progress/spin_policy.hpp"
#include "core/deadline.hpp"

namespace ccoll {
namespace {

/// The service thread has other duties: it looks at them this often.
constexpr std::chrono::microseconds kTurn{200};
/// What a turn that is due takes to begin, at most, before those who ask go on without it.
constexpr std::chrono::microseconds kCourtesy{100};

/// Backgrounds of this process that have something under way, for all of which there is one thread.
std::atomic<int> busy_backgrounds{0};

/// Has the scheduler begin anew there. Where every core had something to do when it woke this
/// thread, it may have put it beside another rank's, and leaves it there for milliseconds, although
/// the core of a caller that sleeps meanwhile is idle.
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
  Communicator::Implementation& communicator;
  std::atomic<bool>& scheduled;
  ~EndOfTurn() {
    // Not before: who gave the flag back for this turn may ask for it only now.
    scheduled.store(false);
    communicator.disown();
  }
};

}  // namespace

std::shared_ptr<Background> Background::make(
    asio::io_context& context, const std::shared_ptr<Communicator::Implementation>& communicator,
    std::shared_ptr<Waiter> waiter) {
  return std::shared_ptr<Background>(new Background(context, communicator, std::move(waiter)));
}

Background::Background(asio::io_context& context,
                       const std::shared_ptr<Communicator::Implementation>& communicator,
                       std::shared_ptr<Waiter> waiter)
    : context_(context),
      communicator_(communicator),
      waiter_(std::move(waiter)),
      watch_(context_),
      timer_(context_) {}

Background::~Background() {
  stop_watching();
  set_busy(false);
}

void Background::set_busy(bool busy) {
  if (busy_.exchange(busy) != busy) busy_backgrounds += busy ? 1 : -1;
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
  const auto communicator = communicator_.lock();
  return communicator && communicator->fills_cores() && busy_backgrounds == 1;
}

bool Background::is_due() const {
  const auto denied = denied_.load(std::memory_order_relaxed);
  return denied != kNever && Clock::now() - denied < kCourtesy;
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
  // Or every message of calls that somebody waits for would wake the service thread as well.
  stop_watching();
  const auto communicator = stopped_ ? nullptr : communicator_.lock();
  // Whoever else holds the flag makes progress, and schedules a turn if something is left.
  // A thread that only asks has it again and again, for a moment: it must not need a turn each
  // time.
  constexpr int kTries = 1000;
  bool own = false;
  for (int tries = 0; communicator && !own && tries < kTries; tries++)
    own = communicator->try_own();
  if (!own) {
    if (communicator) denied_.store(Clock::now());
    scheduled_.store(false);
    // Who gave the flag back before that found this turn scheduled, and scheduled none.
    if (!communicator || !communicator->try_own()) return set_busy(false);
  }
  denied_.store(kNever);
  bool go_on = false;
  {
    const EndOfTurn end{*communicator, scheduled_};
    try {
      go_on = turn_as_owner(*communicator);
    } catch (...) {
      communicator->threw_as_owner(failure_of(std::current_exception()));
    }
  }
  if (communicator->is_forked()) {
    // A child that a function of the caller's has forked, and let return: it has nobody to return
    // to, and the descriptors that this thread would go on to watch are the parent's.
    dprintf(STDERR_FILENO,
            "ccoll: process %d, forked in a reduction that ran in the background, ends\n",
            getpid());
    std::_Exit(EXIT_FAILURE);
  }
  // Who told of a stream since saw that this turn was scheduled, and scheduled none.
  if (go_on || communicator->has_reached())
    schedule();
  else if (!sleeps())
    set_busy(false);
}

bool Background::turn_as_owner(Communicator::Implementation& communicator) {
  communicator.waiter().awake();
  communicator.waiter().sleep(std::chrono::nanoseconds(0));  // takes the events, does not wait
  const auto end = Clock::now() + kTurn;
  // Between two slices of a call other ranks take some time: less than sleeping and waking does.
  // Unless they wait for this thread.
  auto patience =
      communicator.oversubscribed() ? SpinPolicy::short_one(true, false) : SpinPolicy(false);
  bool moved = true;
  const auto goes_on = [&] { return moved || (busy_backgrounds == 1 && patience.keep_polling()); };
  while (goes_on() && communicator.busy_as_owner() && !communicator.wanted() &&
         Clock::now() < end) {
    moved = communicator.progress_as_owner();
    if (moved) patience.reset();
  }
  // Who wants the flag goes on, and schedules a turn if something is left.
  if (!communicator.busy_as_owner() || communicator.wanted()) return false;
  const auto next = communicator.supervise_as_owner(Clock::now());
  if (!moved) {
    communicator.waiter().prepare();
    moved = communicator.progress_as_owner(Messages::Attention::everyone);
  }
  const bool busy = communicator.busy_as_owner();
  return busy && (moved || !sleep_until(next));
}

bool Background::sleep_until(std::chrono::steady_clock::time_point next) {
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
    next = std::min(next, deadline_after(Waiter::kNap));
  }
  timer_.expires_at(next);
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
