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
    const auto standing = standing_.lock();
    if (standing->broken) return tl::unexpected(*standing->broken);
    standing->seats[call.rank] = {At::waiting, call};
    is_last = ++standing->waiting == standing->seats.size();
    if (is_last) standing->set_all(At::launching);
  }
  return is_last ? launch(call.rank) : Status();
}

Status TeamMeeting::take_seat(const TeamCall& call) {
  const auto standing = standing_.lock();
  if (standing->broken) return tl::unexpected(*standing->broken);
  if (call.rank >= standing->seats.size()) {
    return fail(ErrorKind::invalid_argument, "rank {} of a team of {}", call.rank,
                standing->seats.size());
  }
  At& at = standing->seats[call.rank].at;
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
  standing_.with([&](const Standing& standing) {
    for (const Seat& seat : standing.seats) calls.push_back(seat.call);
  });
  const auto fits = fit(calls);
  const auto launched = fits && *fits ? device_.launch(calls, last) : Status();
  if (!fits) static_cast<void>(break_with(fits.error(), false));
  if (!launched) static_cast<void>(break_with(launched.error()));
  const auto standing = standing_.lock();
  const bool is_apart = fits && !*fits;
  standing->set_all(!fits || !launched ? At::waiting : is_apart ? At::apart : At::launched);
  standing->waiting = 0;
  changed_.notify_all();
  if (standing->broken) return tl::unexpected(*standing->broken);
  return {};
}

void TeamMeeting::Standing::set_all(At at) {
  for (Seat& seat : seats) seat.at = at;
}

bool TeamMeeting::Standing::is_waiting(std::uint32_t rank) const {
  return seats[rank].at == At::launching || (!broken && seats[rank].at == At::waiting);
}

Result<Entry> TeamMeeting::enter(std::uint32_t rank, TimePoint until) {
  auto standing = standing_.lock();
  if (rank >= standing->seats.size() ||
      (!standing->broken && standing->seats[rank].at < At::waiting)) {
    return fail(ErrorKind::invalid_argument,
                "rank {} of a team of {} leaves a call that it has not made", rank,
                standing->seats.size());
  }
  Seat& seat = standing->seats[rank];
  standing.wait_until(changed_, until,
                      [&](const Standing& its) { return its.broken || !its.is_waiting(rank); });
  if (!standing->broken && standing->is_waiting(rank)) return Entry::waiting;
  standing.wait_until(changed_, std::chrono::steady_clock::now() + kForLaunch,
                      [&](const Standing& its) { return !its.is_waiting(rank); });
  if (standing->is_waiting(rank)) return tl::unexpected(not_launched(rank));
  if (seat.at < At::launched) return tl::unexpected(*standing->broken);
  const bool is_apart = seat.at == At::apart;
  const TeamCall call = seat.call;
  standing.unlock();
  // Nobody launches anew until this rank is away, so this is the launch that it arrived for.
  if (!is_apart) {
    if (auto left = device_.leave(call); !left) return break_with(std::move(left.error()));
  }
  standing.lock();
  seat.at = At::away;
  if (standing->has_ended) return tl::unexpected(*standing->broken);
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
    auto standing = standing_.lock();
    if (standing->broken || !standing->is_waiting(rank)) continue;
    const Failure why = standing->late(rank);
    standing.unlock();
    return break_with(why);
  }
}

Failure TeamMeeting::Standing::late(std::uint32_t rank) const {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t other = 0; other < seats.size(); ++other) {
    if (seats[other].at < At::waiting) missing.push_back(other);
  }
  if (missing.empty()) return not_launched(rank);
  return {ErrorKind::timed_out,
          fmt::format("rank {} of a team waited in vain for {} to make the call", rank,
                      list_ranks(missing)),
          missing.front()};
}

std::optional<Failure> TeamMeeting::broken() const { return standing_.lock()->broken; }

std::optional<Failure> TeamMeeting::ended() const {
  const auto standing = standing_.lock();
  return standing->has_ended ? standing->broken : std::nullopt;
}

tl::unexpected<Failure> TeamMeeting::break_with(Failure why, bool ends_kernels) {
  {
    const auto standing = standing_.lock();
    if (!standing->broken) standing->broken = std::move(why);
    why = *standing->broken;
    // A caller that hears of it may let a stream go on to a kernel, which must find that all ended.
    if (ends_kernels && !standing->has_ended) device_.abort();
    standing->has_ended |= ends_kernels;
  }
  changed_.notify_all();
  return tl::unexpected(std::move(why));
}

}  // namespace ccoll::device
