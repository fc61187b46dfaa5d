// SPDX-License-Identifier: Apache-2.0
#include "ccoll/call_group.hpp"

#include <algorithm>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "comm/call/call_group.hpp"
#include "comm/progress/group_wait.hpp"
#include "comm/progress/operation.hpp"
#include "core/result.hpp"
#include "system/log.hpp"

namespace ccoll {
namespace {

using call_group::Batch;
using call_group::PutOff;

struct OpenGroup {
  int depth = 0;
  std::vector<Work> works;
  std::list<PutOff> put_off;
  std::optional<Failure> failure;  ///< the first of those that were put off
};
thread_local OpenGroup open_group;

const Failure kEnded{ErrorKind::aborted, "the communicator ended before its group of calls did",
                     std::nullopt};

bool is_of(const PutOff& call, const call_group::WeakCommunicator& communicator) {
  return !call.communicator.owner_before(communicator) &&
         !communicator.owner_before(call.communicator);
}

bool must_come_after(const PutOff& call, const PutOff& earlier) {
  if (is_of(call, earlier.communicator)) return true;
  const bool is_one_stream = call.stream && call.stream == earlier.stream;
  return is_one_stream && (call.together == 0 || call.together != earlier.together);
}

/// Moves the calls on in order; only the first that waits may use `until`. True if any is done.
bool go_round(std::list<PutOff>& calls, Clock::time_point until) {
  bool moved = false;
  for (auto call = calls.begin(); call != calls.end();) {
    const auto stands_before = [&](const PutOff& earlier) {
      return must_come_after(*call, earlier);
    };
    if (std::any_of(calls.begin(), call, stands_before)) {
      ++call;
      continue;
    }
    const auto communicator = call->communicator.lock();
    // Were it to throw, the calls behind it would be lost.
    const auto begun = communicator ? caught([&] { return call->go_on(until); })
                                    : Result<bool>(tl::unexpected(kEnded));
    if (begun && !*begun) {
      until = Clock::now();
      ++call;
      continue;
    }
    if (!begun && !open_group.failure) open_group.failure = begun.error();
    moved = true;
    call = calls.erase(call);
  }
  return moved;
}

/// Ends a group. The outermost one waits for all its calls and returns the first failure.
std::optional<Failure> finish() {
  if (open_group.depth == 0)
    raise({ErrorKind::invalid_argument, "group_end: no group is open", std::nullopt});
  if (--open_group.depth > 0) return std::nullopt;
  call_group::go_on(nullptr, Clock::time_point::max());
  auto first = std::exchange(open_group.failure, {});
  const auto works = std::exchange(open_group.works, {});
  wait_for_all(works);
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
              "{}: this call cannot be part of a group; call it before group_begin, or let each "
              "rank have a thread of its own",
              call);
}

std::vector<Work>& call_group::works_with_room() {
  auto& works = open_group.works;
  if (works.size() == works.capacity()) works.reserve(2 * works.size() + 8);
  return works;
}

bool call_group::has_put_off() { return !open_group.put_off.empty(); }

void call_group::put_off(PutOff call) { open_group.put_off.push_back(std::move(call)); }

std::shared_ptr<Batch> call_group::open_batch(const WeakCommunicator& communicator,
                                              std::optional<cudaStream_t> stream) {
  const auto& calls = open_group.put_off;
  const auto last = std::find_if(calls.rbegin(), calls.rend(),
                                 [&](const PutOff& call) { return call.stream == stream; });
  return last != calls.rend() && is_of(*last, communicator) ? last->batch : nullptr;
}

void call_group::go_on(const Work::State* awaited, Clock::time_point limit) {
  constexpr std::chrono::milliseconds kPatience{10};
  if (!has_put_off()) return;
  // Calls that these begin now, as the host's if devices do not make them, are not put off again.
  auto calls = std::exchange(open_group.put_off, {});
  bool moved = true;
  while (!calls.empty() && (awaited == nullptr || !awaited->done())) {
    const auto now = Clock::now();
    moved = go_round(calls, moved ? now : std::min(limit, now + kPatience));
    if (now >= limit) break;
  }
  open_group.put_off = std::move(calls);
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
    log().error("a group of calls ended without end(), and a call failed: {}", failure->message);
}

}  // namespace ccoll
