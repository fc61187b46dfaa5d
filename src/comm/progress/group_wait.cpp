// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/group_wait.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "comm/progress/operation.hpp"
#include "comm/progress/owner.hpp"
#include "comm/progress/progress.hpp"
#include "comm/progress/spin_policy.hpp"

namespace ccoll {
namespace {

/// The communicators of several works, all owned by this thread at once, so that none waits while
/// another moves. Each is released once its works are over, as it may be about to end.
class GroupWait {
 public:
  /// This thread's latest one, which may be inside a function that an outer one calls.
  static thread_local const GroupWait* innermost;

  explicit GroupWait(const std::vector<Work>& works) {
    std::map<std::shared_ptr<Progress>, std::vector<const Work*>> by_communicator;
    for (const auto& work : works)
      if (auto progress = work.state().progress.lock())
        by_communicator[std::move(progress)].push_back(&work);
    for (auto& [progress, its] : by_communicator) {
      auto& part = parts_.emplace_back();
      part.progress = progress;
      for (const auto* work : its) part.remaining.emplace_back(work->state());
      part.works = std::move(its);
    }
    innermost = this;
  }
  ~GroupWait() { innermost = outer_; }
  GroupWait(const GroupWait&) = delete;
  GroupWait& operator=(const GroupWait&) = delete;

  const GroupWait* outer() const { return outer_; }
  bool holds(const Progress& progress) const {
    return std::ranges::any_of(parts_, [&](const Member& part) {
      return part.progress.get() == &progress && part.owner.has_value();
    });
  }

  void wait() {
    own();
    const auto oversubscribed = [](const Member& part) {
      return part.progress->cores().are_oversubscribed;
    };
    SpinPolicy patience(std::ranges::any_of(parts_, oversubscribed));
    for (unsigned rounds = 1; let_go(); rounds++) {
      if (progress()) {
        patience.reset();
        aside_ = {};
        if (rounds % kRoundsBetweenLooks != 0) continue;
        // Time limits and others' wishes hold even while something moves.
        supervise();
        if (!wanted()) continue;
      }
      if (wanted()) {
        step_aside();
      } else if (!patience.keep_polling()) {
        sleep();
      }
    }
  }

 private:
  static constexpr unsigned kRoundsBetweenLooks = 64;
  static constexpr std::chrono::microseconds kLongestAside{1000};
  static constexpr std::chrono::milliseconds kLongestSleep{1000};

  struct Member {
    std::shared_ptr<Progress> progress;
    std::vector<const Work*> works;
    std::deque<Remaining> remaining;  ///< per work, from the first that is not over
    std::optional<Owner<>> owner;

    Progress::Operations& operations() const { return progress->operations(); }
    void release() {
      progress->settle(*owner);
      owner.reset();
    }
    bool over() {
      while (!remaining.empty() && remaining.front().none()) remaining.pop_front();
      return remaining.empty();
    }
  };

  /// Takes all flags. It has none while it waits for one: the thread that has that one may wait for
  /// another of them, in a reduction's function.
  void own() {
    auto* awaited = parts_.empty() ? nullptr : &parts_.front();
    while (awaited != nullptr) {
      awaited->owner.emplace(*awaited->progress);
      awaited = try_to_own_rest();
    }
  }
  /// If another thread has one of the flags, gives all back and returns that member.
  Member* try_to_own_rest() {
    for (auto& part : parts_) {
      if (part.owner) continue;
      if (const auto owned = part.progress->try_own()) {
        part.owner.emplace(*part.progress, *owned);
        continue;
      }
      for (auto& each : parts_) each.owner.reset();
      return &part;
    }
    return nullptr;
  }
  /// Other threads have the flags meanwhile, for longer the longer nothing moves. They cannot wait
  /// in one queue, as the threads of one communicator do: a thread with several flags may not keep
  /// one while it waits for another.
  void step_aside() {
    for (auto& part : parts_) part.release();
    std::this_thread::sleep_for(aside_);
    aside_ = std::min(2 * aside_ + std::chrono::microseconds(1), kLongestAside);
    own();
  }
  /// Releases those that are over; true while there are others.
  bool let_go() {
    for (auto part = parts_.begin(); part != parts_.end();)
      if (part->over()) {
        part->release();
        part = parts_.erase(part);
      } else {
        ++part;
      }
    return !parts_.empty();
  }
  bool progress(Attention attention = Attention::awaited) {
    bool moved = false;
    for (const auto& part : parts_)
      if (part.operations().busy(*part.owner))
        moved |= part.operations().advance(*part.owner, attention);
    return moved;
  }
  bool wanted() const {
    return std::ranges::any_of(parts_,
                               [](const Member& part) { return part.progress->is_wanted(); });
  }
  /// Looks at all limits; returns how long to wait for the next look.
  Clock::duration supervise() {
    Clock::duration wait = kLongestSleep;
    for (const auto& part : parts_) {
      if (!part.operations().busy(*part.owner)) continue;
      const auto now = part.progress->now();
      wait = std::min(wait, part.operations().supervise(*part.owner, now) - now);
    }
    return wait;
  }

  void sleep() {
    const auto wait = supervise();
    if (!let_go()) return;
    CommonSleep sleep;
    for (const auto& part : parts_) {
      part.progress->waiter().prepare();
      sleep.add(part.progress->waiter());
    }
    if (!progress(Attention::everyone) && !wanted()) {
      const Notes notes(parts_);
      sleep.sleep(std::chrono::ceil<std::chrono::milliseconds>(wait));
    }
    for (const auto& part : parts_) {
      part.progress->awake(*part.owner);
      part.progress->waiter().sleep(std::chrono::nanoseconds(0));  // takes the events only
    }
  }

  /// Notes a sleep in the counters of each communicator.
  class Notes {
   public:
    explicit Notes(const std::list<Member>& parts) {
      for (const auto& part : parts) {
        std::vector<Rank> awaited;
        for (const auto* work : part.works)
          std::ranges::copy(part.operations().awaited(*part.owner, work->state()),
                            std::back_inserter(awaited));
        begun_.push_back({&part, std::move(awaited), part.progress->now()});
      }
    }
    ~Notes() {
      for (auto& [part, awaited, begun] : begun_)
        part->operations().slept(*part->owner, std::move(awaited), part->progress->now() - begun);
    }
    Notes(const Notes&) = delete;
    Notes& operator=(const Notes&) = delete;

   private:
    struct Sleep {
      const Member* part;
      std::vector<Rank> awaited;
      Clock::time_point begun;
    };
    std::vector<Sleep> begun_;
  };

  const GroupWait* const outer_ = innermost;
  std::list<Member> parts_;
  std::chrono::microseconds aside_{};
};

thread_local const GroupWait* GroupWait::innermost = nullptr;

}  // namespace

void wait_for_all(const std::vector<Work>& works) { GroupWait(works).wait(); }

bool is_held_by_group_wait(const Progress& progress) {
  const auto* wait = GroupWait::innermost;
  while (wait != nullptr && !wait->holds(progress)) wait = wait->outer();
  return wait != nullptr;
}

}  // namespace ccoll
