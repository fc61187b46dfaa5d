// SPDX-License-Identifier: Apache-2.0
#include "gpu/team/meeting.hpp"

#include <algorithm>
#include <utility>

#include "core/text.hpp"

namespace ccoll::device {
namespace {

/// How long to wait for a launch that is under way when all is over.
constexpr std::chrono::seconds kForLaunch{5};

/// A launch has one program, and belongs to one graph or none. False if each rank's stream is
/// captured in some graph, but not all in one.
Result<bool> fit(std::span<const TeamCall> calls) {
  for (const TeamCall& call : calls) {
    if (call.program != calls[0].program) {
      return fail(ErrorKind::mismatch, "ranks {} and {} of a team make different calls",
                  calls[0].rank, call.rank);
    }
  }
  const auto odd = std::ranges::find_if(
      calls, [&](const TeamCall& call) { return call.capture != calls[0].capture; });
  if (odd == calls.end()) return true;
  if (std::ranges::find(calls, 0U, &TeamCall::capture) == calls.end()) return false;
  return fail(ErrorKind::mismatch,
              "the streams of ranks {} and {} of a team are not captured in one graph: expected "
              "one for all ranks, or none",
              calls[0].rank, odd->rank);
}

Failure not_launched(std::uint32_t rank) {
  return {ErrorKind::timed_out,
          fmt::format("rank {} of a team waited in vain for the launch, because the device's queue "
                      "has no room for it; its buffers may still be written",
                      rank),
          std::nullopt};
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
    if (is_last) set_all(At::launching);
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

/// Runs without the lock: a launch may wait for room in the device's queue while deadlines pass.
Status TeamMeeting::launch(std::uint32_t last) {
  std::vector<TeamCall> calls;
  for (const Seat& seat : seats_) calls.push_back(seat.call);
  const auto fits = fit(calls);
  const auto launched = fits && *fits ? device_.launch(calls, last) : Status();
  if (!fits) static_cast<void>(break_with(fits.error(), false));
  if (!launched) static_cast<void>(break_with(launched.error()));
  const std::lock_guard lock(mu_);
  const bool is_apart = fits && !*fits;
  set_all(!fits || !launched ? At::waiting : is_apart ? At::apart : At::launched);
  waiting_ = 0;
  changed_.notify_all();
  if (broken_) return tl::unexpected(*broken_);
  return {};
}

void TeamMeeting::set_all(At at) {
  for (Seat& seat : seats_) seat.at = at;
}

bool TeamMeeting::is_waiting(std::uint32_t rank) const {
  return seats_[rank].at == At::launching || (!broken_ && seats_[rank].at == At::waiting);
}

Result<Entry> TeamMeeting::enter(std::uint32_t rank, TimePoint until) {
  std::unique_lock lock(mu_);
  if (rank >= seats_.size() || (!broken_ && seats_[rank].at < At::waiting)) {
    return fail(ErrorKind::invalid_argument,
                "rank {} of a team of {} leaves a call that it has not made", rank, seats_.size());
  }
  Seat& seat = seats_[rank];
  changed_.wait_until(lock, until, [&] { return broken_ || !is_waiting(rank); });
  if (!broken_ && is_waiting(rank)) return Entry::waiting;
  changed_.wait_for(lock, kForLaunch, [&] { return !is_waiting(rank); });
  if (is_waiting(rank)) return tl::unexpected(not_launched(rank));
  if (seat.at < At::launched) return tl::unexpected(*broken_);
  const bool is_apart = seat.at == At::apart;
  lock.unlock();
  // Nobody launches anew until this rank is away, so this is the launch that it arrived for.
  if (!is_apart) {
    if (auto left = device_.leave(seat.call); !left) return break_with(std::move(left.error()));
  }
  lock.lock();
  seat.at = At::away;
  if (has_ended_) return tl::unexpected(*broken_);
  return is_apart ? Entry::apart : Entry::entered;
}

Status TeamMeeting::leave(std::uint32_t rank, TimePoint deadline) {
  for (;;) {
    const auto entry = enter(rank, deadline);
    if (!entry) return tl::unexpected(entry.error());
    if (*entry == Entry::entered) return {};
    if (*entry == Entry::apart) {
      return break_with({ErrorKind::mismatch,
                         "the streams of a team's ranks are captured in different graphs: expected "
                         "one for all ranks",
                         std::nullopt});
    }
    std::unique_lock lock(mu_);
    if (broken_ || !is_waiting(rank)) continue;
    const Failure why = late(rank);
    lock.unlock();
    return break_with(why);
  }
}

/// Why rank `rank` waits in vain; the caller holds mu_.
Failure TeamMeeting::late(std::uint32_t rank) const {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t other = 0; other < seats_.size(); ++other) {
    if (seats_[other].at < At::waiting) missing.push_back(other);
  }
  if (missing.empty()) return not_launched(rank);
  return {ErrorKind::timed_out,
          fmt::format("rank {} of a team waited in vain for {} to make the call", rank,
                      list_ranks(missing)),
          missing.front()};
}

std::optional<Failure> TeamMeeting::broken() const {
  const std::lock_guard lock(mu_);
  return broken_;
}

std::optional<Failure> TeamMeeting::ended() const {
  const std::lock_guard lock(mu_);
  return has_ended_ ? broken_ : std::nullopt;
}

tl::unexpected<Failure> TeamMeeting::break_with(Failure why, bool ends_kernels) {
  {
    const std::lock_guard lock(mu_);
    if (!broken_) broken_ = std::move(why);
    why = *broken_;
    // A caller that hears of it may let a stream go on to a kernel, which must find that all ended.
    if (ends_kernels && !has_ended_) device_.abort();
    has_ended_ |= ends_kernels;
  }
  changed_.notify_all();
  return tl::unexpected(std::move(why));
}

}  // namespace ccoll::device
