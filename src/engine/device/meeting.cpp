// SPDX-License-Identifier: Apache-2.0
#include "engine/device/meeting.hpp"

#include <utility>

#include "core/text.hpp"

namespace ccoll::device {
namespace {

/// A launch is of one program, and of one graph or none.
Status agree(std::span<const TeamCall> calls) {
  for (const TeamCall& call : calls) {
    if (call.program != calls[0].program) {
      return fail(ErrorKind::mismatch, "ranks {} and {} of a team make different calls",
                  calls[0].rank, call.rank);
    }
    if (call.capture == calls[0].capture) continue;
    return fail(ErrorKind::mismatch,
                "the streams of ranks {} and {} of a team are not captured in one graph: expected "
                "is one for all ranks, or none",
                calls[0].rank, call.rank);
  }
  return {};
}

}  // namespace

Status TeamMeeting::arrive(TeamCall call) {
  CCOLL_TRY(take_seat(call));
  if (auto arrived = device_.arrive(call); !arrived) return break_with(std::move(arrived.error()));
  bool is_last = false;
  {
    const std::lock_guard lock(mu_);
    if (broken_) return tl::unexpected(*broken_);
    seats_[call.rank] = {At::waiting, call};
    is_last = ++waiting_ == seats_.size();
  }
  return is_last ? launch(call.rank) : Status();
}

Status TeamMeeting::take_seat(const TeamCall& call) {
  const std::lock_guard lock(mu_);
  if (broken_) return tl::unexpected(*broken_);
  if (call.rank >= seats_.size()) {
    return fail(ErrorKind::invalid_argument, "rank {} of a team of {}", call.rank, seats_.size());
  }
  At& at = seats_[call.rank].at;
  if (at != At::away) {
    return fail(ErrorKind::invalid_argument,
                "rank {} of a team makes a call and has not left its call before", call.rank);
  }
  at = At::arriving;
  return {};
}

/// Without the lock: a launch may wait for room in the device's queue, and others' deadlines pass.
Status TeamMeeting::launch(std::uint32_t last) {
  std::vector<TeamCall> calls;
  for (const Seat& seat : seats_) calls.push_back(seat.call);
  Status launched = agree(calls);
  if (launched) launched = device_.launch(calls, last);
  if (!launched) return break_with(std::move(launched.error()));
  {
    const std::lock_guard lock(mu_);
    if (broken_) return tl::unexpected(*broken_);
    for (Seat& seat : seats_) seat.at = At::launched;
    waiting_ = 0;
  }
  changed_.notify_all();
  return {};
}

Status TeamMeeting::leave(std::uint32_t rank, TimePoint deadline) {
  std::unique_lock lock(mu_);
  if (rank >= seats_.size() || (!broken_ && seats_[rank].at < At::waiting)) {
    return fail(ErrorKind::invalid_argument,
                "rank {} of a team of {} leaves a call that it has not made", rank, seats_.size());
  }
  Seat& seat = seats_[rank];
  changed_.wait_until(lock, deadline, [&] { return seat.at == At::launched || broken_; });
  if (seat.at != At::launched) {
    const Failure why = broken_ ? *broken_ : late(rank);
    lock.unlock();
    return break_with(why);
  }
  lock.unlock();
  // Until it is away nobody launches anew, so this is the launch that it was there for.
  Status left = device_.leave(seat.call);
  if (!left) return break_with(std::move(left.error()));
  lock.lock();
  seat.at = At::away;
  return {};
}

/// Why rank `rank` waits in vain; holds mu_.
Failure TeamMeeting::late(std::uint32_t rank) const {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t other = 0; other < seats_.size(); ++other) {
    if (seats_[other].at < At::waiting) missing.push_back(other);
  }
  if (missing.empty()) {
    return {ErrorKind::timed_out,
            fmt::format("rank {} of a team waited in vain for the launch, which the device's queue "
                        "has no room for; its buffers may still be written",
                        rank),
            std::nullopt};
  }
  return {ErrorKind::timed_out,
          fmt::format("rank {} of a team waited in vain for {} to make the call", rank,
                      list_ranks(missing)),
          missing.front()};
}

std::optional<Failure> TeamMeeting::broken() const {
  const std::lock_guard lock(mu_);
  return broken_;
}

tl::unexpected<Failure> TeamMeeting::break_with(Failure why) {
  bool is_first = false;
  {
    const std::lock_guard lock(mu_);
    is_first = !broken_;
    if (is_first) broken_ = std::move(why);
    why = *broken_;
  }
  if (is_first) device_.abort();
  changed_.notify_all();
  return tl::unexpected(std::move(why));
}

}  // namespace ccoll::device
