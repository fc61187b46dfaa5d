// SPDX-License-Identifier: Apache-2.0
#include "pending.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

namespace ccoll::python {
namespace {

using Clock = std::chrono::steady_clock;

/// How often Ctrl-C is looked for.
constexpr std::chrono::milliseconds kSlice{50};
/// A call that is over so soon is not worth letting another thread have the GIL.
constexpr std::chrono::microseconds kSpin{5};

#if defined(NB_FREE_THREADED)
std::atomic<bool> gil_is_released{true};
#else
std::atomic<bool> gil_is_released{false};
#endif

std::atomic<int> inside{0};
std::atomic<bool> ending{false};

/// The function given to on_done, or none, and the arrays that it keeps. It ends in a thread of the
/// library.
struct Told {
  nb::object tell;
  std::vector<Held> held;
  nb::object copies;

  void run(const Error* error) {
    held.clear();
    const auto reporting = [](const char* what, const auto& step) {
      try {
        step();
      } catch (nb::python_error& raised) {
        raised.discard_as_unraisable(what);
      }
    };
    if (error == nullptr && copies.is_valid())
      reporting("results on their way to an array", [&] { copies(); });
    if (tell.is_valid())
      reporting("a function given to on_done",
                [&] { tell(error == nullptr ? nb::none() : exception_of(*error)); });
  }
};

/// Has `told` run once the operation is over. Where this throws, the arrays are in `told`.
void run_when_over(ccoll::Work& work, std::unique_ptr<Told>& told) {
  auto* const kept = told.get();
  work.on_done([kept](const Error* error) {
    const Inside here;
    // At the interpreter's end it is left where it is.
    if (Inside::is_ending()) return;
    const nb::gil_scoped_acquire gil;
    std::unique_ptr<Told>(kept)->run(error);
  });
  told.release();
}

bool test(ccoll::Work& work) {
  const MaybeAway away;
  return work.test();
}

/// Whether an operation that is over had no error.
bool succeeded(const ccoll::Work& work) {
  const MaybeAway away;
  return work.error().empty();
}

/// Whether the operation is over; throws its error.
bool over_within(ccoll::Work& work, std::chrono::milliseconds limit) {
  try {
    work.wait(limit);
    return true;
  } catch (const Error&) {
    if (!work.test()) return false;
  }
  work.wait();  // it is over: its own error, or none
  return true;
}

}  // namespace

Inside::Inside() {
  // The others are not there in a forked child.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { inside = 0; });
  (void)registered;
  inside++;
}

Inside::~Inside() { inside--; }

bool Inside::is_ending() { return ending; }

void Inside::begin_end() { ending = true; }

void Inside::await_end() {
  const nb::gil_scoped_release away;
  // One that does not return must not hold up the exit for ever.
  for (const auto begin = Clock::now(); inside > 0;) {
    if (Clock::now() - begin > std::chrono::seconds(1)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void release_gil_in_calls() { gil_is_released.store(true, std::memory_order_relaxed); }
bool releases_gil() { return gil_is_released.load(std::memory_order_relaxed); }

void Keeper::keep(ccoll::Work work, std::vector<Held> held) {
  const nb::ft_lock_guard lock(mutex_);
  kept_.emplace_back(std::move(work), std::move(held));
}

Keeper::Kept Keeper::take() {
  const nb::ft_lock_guard lock(mutex_);
  return std::exchange(kept_, {});
}

void Keeper::sweep() {
  // Testing makes progress, and dropping an array may run Python: neither is done under the lock.
  auto all = take();
  for (auto each = all.begin(); each != all.end();)
    each = test(each->first) ? all.erase(each) : std::next(each);
  const nb::ft_lock_guard lock(mutex_);
  kept_.splice(kept_.end(), all);
}

std::chrono::milliseconds limit_of(std::optional<double> seconds, const char* name) {
  if (!seconds) return std::chrono::milliseconds(0);
  if (!(*seconds > 0))
    refuse(std::string(name) + " is " + std::to_string(*seconds) +
           " s: expected more than 0, math.inf for no limit, or None for the default");
  if (*seconds > 365.0 * 86400) return kNoLimit;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(*seconds * 1000)));
}

void wait_for(ccoll::Work& work, std::optional<double> timeout) {
  if (timeout && !(*timeout >= 0))
    refuse("wait: timeout is " + std::to_string(*timeout) + " s: expected 0 or more");
  const bool limited = timeout && *timeout < 365.0 * 86400;
  const auto begin = Clock::now();
  if (!releases_gil()) {
    do {
      if (!work.test()) continue;
      work.wait();
      return;
    } while (Clock::now() - begin < kSpin);
  }
  const Inside here;
  const auto limit =
      limited ? std::chrono::duration<double>(*timeout) : std::chrono::duration<double>(0);
  for (;;) {
    auto slice = kSlice;
    if (limited) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(limit - (Clock::now() - begin));
      slice = std::clamp(left, std::chrono::milliseconds(0), kSlice);
    }
    {
      const nb::gil_scoped_release away;
      if (over_within(work, slice)) return;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (limited && Clock::now() - begin >= limit)
      throw Error(ErrorKind::timed_out,
                  "the operation is not over after " + std::to_string(*timeout) + " s; it goes on");
  }
}

nb::object Outcome::result(const ccoll::Work& work) {
  if (copies.is_valid()) {
    const nb::object own = copies;
    own();
  }
  const auto received = [&](std::size_t i) {
    Received what = work.received(i);
    what.count /= static_cast<std::size_t>(parts[i]);
    return what;
  };
  if (kind == Kind::received) return nb::cast(received(0));
  if (kind == Kind::list) {
    nb::list all;
    for (std::size_t i = 0; i < parts.size(); i++) all.append(received(i));
    return all;
  }
  if (finish.is_none()) return value;
  nb::object by = finish, from = value, made = by(from), none = nb::none();
  // Another thread may have been here while Python ran; the first one to be done decides.
  if (!finish.is_none()) {
    std::swap(finish, none);
    std::swap(value, made);
  }
  return value;
}

void leave_alone(ccoll::Work work, std::vector<Held> held, const Outcome& outcome, Keeper& keeper) {
  if (!outcome.copies.is_valid()) return keeper.keep(std::move(work), std::move(held));
  std::unique_ptr<Told> told(new Told{nb::object(), std::move(held), outcome.copies});
  try {
    run_when_over(work, told);
  } catch (...) {
    // There is no thread to tell of the end. The memory must stay; nobody waits for the result.
    keeper.keep(std::move(work), std::move(told->held));
  }
}

Pending::~Pending() {
  if (!keeper_ || held_.empty()) return;
  if (outcome_.copies.is_valid() || !test(work_))
    leave_alone(std::move(work_), std::move(held_), outcome_, *keeper_);
}

nb::object Pending::wait(std::optional<double> timeout) {
  ccoll::Work own = work_;  // another thread may wait, too
  wait_for(own, timeout);
  const auto dropped = std::exchange(held_, {});
  return outcome_.result(own);
}

bool Pending::done() {
  if (!test(work_)) return false;
  const auto dropped = std::exchange(held_, {});
  if (outcome_.copies.is_valid() && succeeded(work_)) {
    const nb::object copies = outcome_.copies;
    copies();
  }
  return true;
}

void Pending::on_done(nb::callable tell) {
  std::unique_ptr<Told> told(new Told{std::move(tell), std::exchange(held_, {}), outcome_.copies});
  try {
    run_when_over(work_, told);
  } catch (...) {
    held_ = std::move(told->held);
    throw;
  }
}

nb::object Pending::exception() {
  if (!done()) return nb::none();
  try {
    const MaybeAway away;
    work_.wait();
  } catch (const Error& error) {
    return exception_of(error);
  }
  return nb::none();
}

}  // namespace ccoll::python
