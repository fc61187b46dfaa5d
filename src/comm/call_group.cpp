// SPDX-License-Identifier: Apache-2.0
#include "ccoll/call_group.hpp"

#include <poll.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "comm/call_group.hpp"
#include "comm/implementation.hpp"
#include "comm/patience.hpp"
#include "core/log.hpp"

namespace ccoll {
namespace {

using Implementation = Communicator::Implementation;

/// Messages in one stream.
struct Batch {
  std::weak_ptr<Implementation> communicator;
  CallOptions options;
  std::string label;  ///< what the options name
  std::vector<MessageRequest> requests;
};

/// A call that ranks enter together.
struct JointCall {
  std::weak_ptr<Implementation> communicator;
  call_group::GoOn go_on;
};

struct OpenGroup {
  int depth = 0;
  std::vector<Work> works;
  std::vector<Batch> batches;
  std::list<JointCall> joint_calls;
};
thread_local OpenGroup open_group;

const Failure kEnded{ErrorKind::aborted, "the communicator ended before its group of calls did",
                     std::nullopt};

/// The communicators of several works, all owned by this thread at once, so that none waits while
/// another moves. Each is let go once its works are over: it may be about to end.
class Together {
 public:
  explicit Together(const std::vector<Work>& works) {
    // In one order in all threads, or two that want the same ones could each have the other's.
    std::map<std::shared_ptr<Implementation>, std::vector<const Work*>> by_communicator;
    for (const auto& work : works)
      if (auto communicator = work.state().communicator.lock())
        by_communicator[std::move(communicator)].push_back(&work);
    for (auto& [communicator, its] : by_communicator) {
      auto& part = parts_.emplace_back();
      part.communicator = communicator;
      part.works = std::move(its);
    }
  }

  void wait() {
    own();
    const auto crowded = [](const Part& part) { return part.communicator->crowded(); };
    Patience patience(std::ranges::any_of(parts_, crowded));
    for (unsigned rounds = 1; let_go(); rounds++) {
      if (progress()) {
        patience.reset();
        aside_ = {};
        if (rounds % kRoundsBetweenLooks != 0) continue;
        // Time limits hold while something moves, too, as do others' wishes.
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

  struct Part {
    std::shared_ptr<Implementation> communicator;
    std::vector<const Work*> works;
    std::optional<Implementation::Owner> owner;

    bool over() const {
      return std::ranges::all_of(works, [](const Work* work) { return work->state().done(); });
    }
  };

  void own() {
    for (auto& part : parts_) part.owner.emplace(*part.communicator);
  }
  /// Others have the flags meanwhile: the longer, the longer nothing moves. They cannot wait in one
  /// queue, as the threads of one communicator do: who has several flags may not keep one while it
  /// waits for another.
  void step_aside() {
    for (auto& part : parts_) part.owner.reset();
    std::this_thread::sleep_for(aside_);
    aside_ = std::min(2 * aside_ + std::chrono::microseconds(1), kLongestAside);
    own();
  }
  /// Those that are over; true while there are others.
  bool let_go() {
    parts_.remove_if([](const Part& part) { return part.over(); });
    return !parts_.empty();
  }
  bool progress(Messages::Attention attention = Messages::Attention::awaited) {
    bool moved = false;
    for (const auto& part : parts_)
      if (part.communicator->busy_as_owner())
        moved |= part.communicator->progress_as_owner(attention);
    return moved;
  }
  bool wanted() const {
    return std::ranges::any_of(parts_,
                               [](const Part& part) { return part.communicator->wanted(); });
  }
  Clock::time_point supervise() {
    auto next = Clock::time_point::max();
    const auto now = Clock::now();
    for (const auto& part : parts_)
      if (part.communicator->busy_as_owner())
        next = std::min(next, part.communicator->supervise_as_owner(now));
    return next;
  }

  void sleep() {
    const auto next = supervise();
    if (!let_go()) return;
    std::vector<pollfd> watched;
    for (const auto& part : parts_) {
      part.communicator->waiter().prepare();
      watched.push_back({part.communicator->waiter().descriptor(), POLLIN, 0});
    }
    if (!progress(Messages::Attention::everyone) && !wanted()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
      const auto limit = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
      const Notes notes(parts_);
      ::poll(watched.data(), watched.size(), limit);
    }
    for (const auto& part : parts_) {
      part.communicator->waiter().awake();
      part.communicator->waiter().sleep(std::chrono::nanoseconds(0));  // takes the events only
    }
  }

  /// Of a sleep, for the counters of each communicator.
  class Notes {
   public:
    explicit Notes(const std::list<Part>& parts) {
      for (const auto& part : parts) {
        std::vector<Rank> awaited;
        for (const auto* work : part.works)
          std::ranges::copy(part.communicator->awaited_as_owner(work->state()),
                            std::back_inserter(awaited));
        awaited_.emplace_back(part.communicator.get(), std::move(awaited));
      }
    }
    ~Notes() {
      const auto slept = Clock::now() - begun_;
      for (auto& [communicator, awaited] : awaited_)
        communicator->note_sleep_as_owner(std::move(awaited), slept);
    }
    Notes(const Notes&) = delete;
    Notes& operator=(const Notes&) = delete;

   private:
    std::vector<std::pair<Implementation*, std::vector<Rank>>> awaited_;
    const Clock::time_point begun_ = Clock::now();
  };

  std::list<Part> parts_;
  std::chrono::microseconds aside_{};
};

/// Those that wait for calls of this very thread are its own, too: each goes on as far as it can,
/// before any is waited for.
std::optional<Failure> enter_joint_calls() {
  constexpr std::chrono::milliseconds kPatience{10};
  std::optional<Failure> first;
  auto calls = std::exchange(open_group.joint_calls, {});
  bool moved = true;
  while (!calls.empty()) {
    const auto until = Clock::now() + (moved ? Clock::duration{} : kPatience);
    moved = false;
    std::vector<const Implementation*> waiting;
    for (auto call = calls.begin(); call != calls.end();) {
      const auto communicator = call->communicator.lock();
      if (std::ranges::find(waiting, communicator.get()) != waiting.end()) {
        ++call;
        continue;
      }
      const auto entered = !communicator ? Result<bool>(tl::unexpected(kEnded))
                                         : call->go_on(waiting.empty() ? until : Clock::now());
      if (!entered && !first)
        first = communicator ? communicator->told(entered.error()) : entered.error();
      moved |= !entered || *entered;
      if (entered && !*entered) waiting.push_back(communicator.get());
      call = entered && !*entered ? std::next(call) : calls.erase(call);
    }
  }
  return first;
}

std::optional<Failure> begin_batches() {
  std::optional<Failure> first;
  for (auto& [its, options, label, requests] : std::exchange(open_group.batches, {})) {
    options.label = label;
    const auto communicator = its.lock();
    if (!communicator) {
      if (!first) first = kEnded;
      continue;
    }
    const auto begun = communicator->begin_in_stream("batch", requests, options);
    if (!begun && !first) first = communicator->told(begun.error(), label);
  }
  return first;
}

/// The outermost group's end, when all is over: the first failure. Nothing for an inner one.
std::optional<Failure> finish() {
  if (open_group.depth == 0)
    raise({ErrorKind::invalid_argument, "group_end: no group was begun", std::nullopt});
  if (--open_group.depth > 0) return std::nullopt;
  auto first = enter_joint_calls();
  if (auto failure = begin_batches(); failure && !first) first = std::move(failure);
  const auto works = std::exchange(open_group.works, {});
  Together(works).wait();
  for (const auto& work : works)
    if (const auto* failure = work.state().failure(); failure != nullptr && !first)
      first = *failure;
  return first;
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

std::vector<Work>& call_group::works_with_room() {
  auto& works = open_group.works;
  if (works.size() == works.capacity()) works.reserve(2 * works.size() + 8);
  return works;
}

void call_group::put_off(const std::shared_ptr<Implementation>& communicator,
                         std::span<const MessageRequest> requests, const CallOptions& options) {
  const auto is_its = [&](const Batch& batch) {
    return batch.communicator.lock() == communicator && batch.options.stream == options.stream;
  };
  auto& batches = open_group.batches;
  auto found = std::ranges::find_if(batches, is_its);
  if (found == batches.end())
    found = batches.insert(found, {communicator, options, std::string(options.label), {}});
  found->requests.insert(found->requests.end(), requests.begin(), requests.end());
}

void call_group::put_off(const std::shared_ptr<Implementation>& communicator, GoOn go_on) {
  open_group.joint_calls.push_back({communicator, std::move(go_on)});
}

void group_begin() { open_group.depth++; }

void group_end() {
  if (const auto failure = finish()) raise(*failure);
}

void CallGroup::end() {
  ended_ = true;
  group_end();
}

CallGroup::~CallGroup() {
  if (ended_) return;
  if (const auto failure = finish())
    log().error("a group of calls ended without end(), and not all went well: {}",
                failure->message);
}

}  // namespace ccoll
