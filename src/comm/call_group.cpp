// SPDX-License-Identifier: Apache-2.0
#include "ccoll/call_group.hpp"

#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "comm/call_group.hpp"
#include "comm/implementation.hpp"
#include "comm/patience.hpp"

namespace ccoll {
namespace {

using Implementation = Communicator::Implementation;

struct OpenGroup {
  int depth = 0;
  std::vector<Work> works;
};
thread_local OpenGroup open_group;

/// The communicators of several works, all owned by this thread at once, so that none waits while
/// another moves.
class Together {
 public:
  explicit Together(const std::vector<Work>& works) : works_(works) {
    for (const auto& work : works_)
      if (auto communicator = work.state().communicator.lock())
        communicators_.push_back(std::move(communicator));
    // In one order in all threads, or two that want the same ones could each have the other's.
    std::ranges::sort(communicators_);
    const auto repeated = std::ranges::unique(communicators_);
    communicators_.erase(repeated.begin(), repeated.end());
  }

  void wait() {
    own();
    Patience patience(std::ranges::any_of(communicators_, &Implementation::crowded));
    for (unsigned rounds = 1; !done(); rounds++) {
      if (progress()) {
        patience.reset();
        // Time limits hold while something moves, too.
        if (rounds % kRoundsBetweenLooks == 0) supervise();
      } else if (wanted()) {
        owners_.clear();
        std::this_thread::yield();
        own();
      } else if (!patience.keep_polling()) {
        sleep();
      }
    }
    owners_.clear();
  }

 private:
  static constexpr unsigned kRoundsBetweenLooks = 64;

  void own() {
    for (const auto& communicator : communicators_) owners_.emplace_back(*communicator);
  }
  bool done() const {
    return std::ranges::all_of(works_, [](const Work& work) { return work.state().done(); });
  }
  bool progress(Messages::Attention attention = Messages::Attention::awaited) {
    bool moved = false;
    for (const auto& communicator : communicators_)
      if (communicator->busy_as_owner()) moved |= communicator->progress_as_owner(attention);
    return moved;
  }
  bool wanted() const { return std::ranges::any_of(communicators_, &Implementation::wanted); }
  Clock::time_point supervise() {
    auto next = Clock::time_point::max();
    const auto now = Clock::now();
    for (const auto& communicator : communicators_)
      if (communicator->busy_as_owner())
        next = std::min(next, communicator->supervise_as_owner(now));
    return next;
  }

  void sleep() {
    const auto next = supervise();
    if (done()) return;
    std::vector<pollfd> watched;
    for (const auto& communicator : communicators_) {
      communicator->waiter().prepare();
      watched.push_back({communicator->waiter().descriptor(), POLLIN, 0});
    }
    if (!progress(Messages::Attention::everyone) && !wanted()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
      const auto limit = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
      ::poll(watched.data(), watched.size(), limit);
    }
    for (const auto& communicator : communicators_) {
      communicator->waiter().awake();
      communicator->waiter().sleep(std::chrono::nanoseconds(0));  // takes the events, does not wait
    }
  }

  const std::vector<Work>& works_;
  std::vector<std::shared_ptr<Implementation>> communicators_;
  std::deque<Implementation::Owner> owners_;
};

/// The outermost group's end: its works, all over. Nothing for an inner one.
std::vector<Work> finish() {
  if (open_group.depth == 0)
    raise({ErrorKind::invalid_argument, "group_end: no group was begun", std::nullopt});
  if (--open_group.depth > 0) return {};
  auto works = std::exchange(open_group.works, {});
  Together(works).wait();
  return works;
}

}  // namespace

bool call_group::is_open() { return open_group.depth > 0; }

Status call_group::refuse_in_one(std::string_view call) {
  if (!is_open()) return {};
  return fail(ErrorKind::invalid_argument,
              "{}: it cannot wait for group_end; call it before group_begin, or in a thread for "
              "each of several ranks",
              call);
}

void call_group::add(Work work) { open_group.works.push_back(std::move(work)); }

void group_begin() { open_group.depth++; }

void group_end() {
  for (const auto& work : finish())
    if (const auto* failure = work.state().failure()) raise(*failure);
}

void CallGroup::end() {
  ended_ = true;
  group_end();
}

CallGroup::~CallGroup() {
  if (!ended_) finish();
}

}  // namespace ccoll
