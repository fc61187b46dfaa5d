// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/failures.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "comm/progress/owner.hpp"
#include "core/deadline.hpp"
#include "system/log.hpp"

namespace ccoll {
namespace {

/// A broken link is only a symptom: the control path has this long to bring the cause.
constexpr std::chrono::milliseconds kGrace{600};

/// Apparent corruption may be a symptom, too: a dying process loses its memory before its queue
/// pairs. Otherwise it is the cause of links that break elsewhere, and must be told before those.
constexpr std::chrono::milliseconds kShortGrace = kGrace / 3;

/// If no link shows that a call needs a lost rank (others stand in between, or its host has
/// vanished), the call fails once nothing has moved for this long.
constexpr std::chrono::milliseconds kLastWords{1500};

/// Whether a link may fail like this because a process has ended.
bool may_be_symptom(const Failure& failure) {
  return failure.kind == ErrorKind::peer_lost || failure.kind == ErrorKind::corrupt;
}

}  // namespace

Status Failures::usable(Owned owned) {
  take_news(owned);
  if (!verdict_.broken(owned)) return {};
  auto failure = *verdict_.broken(owned);
  failure.message = "an earlier failure broke the communicator: " + failure.message;
  return tl::unexpected(std::move(failure));
}

void Failures::failed(Owned owned, Failure failure) {
  if (failure.kind == ErrorKind::exhausted && !failure.culprit) return threw(owned, failure);
  if (may_be_symptom(failure))
    if (const auto loss = departures_.loss_behind(failure)) return end_by_loss(owned, *loss);
  if (failure.kind == ErrorKind::peer_lost) return suspect(owned, std::move(failure), kGrace);
  if (failure.kind == ErrorKind::corrupt) return suspect(owned, std::move(failure), kShortGrace);
  // The receiver that got unexpected data tells which two ranks differ.
  if (under_way_.collectives(owned).counts_differ())
    return suspect(owned, std::move(failure), kGrace);
  break_with(owned, failure, true);
}

void Failures::suspect(Owned owned, Failure failure, Clock::duration grace) {
  if (!verdict_.suspect(owned, std::move(failure), deadline_after(grace, progress_.now()))) return;
  // A thread that is about to sleep has not counted on this deadline.
  progress_.waiter().ring();
}

void Failures::break_with(Owned owned, const Failure& failure, bool tell) {
  if (progress_.is_forked()) return break_copy(owned, failure);
  // The others cannot know which rank ran out.
  if (tell && failure.kind == ErrorKind::exhausted && !failure.culprit)
    return threw(owned, failure);
  const bool first = !verdict_.broken(owned);
  if (first) {
    audience_.breaks(owned);
    note(owned, failure);
    verdict_.break_with(owned, failure);
    if (log().tells(LogLevel::debug))
      log().debug("rank {}: a communicator ends: {}", self_.rank(),
                  self_.for_caller(failure).message);
  }
  under_way_.end(owned, *verdict_.broken(owned), verdict_.is_closed());
  if (tell) self_.control().flood(self_.id(), *verdict_.broken(owned));
  audience_.broke(owned, first);
}

void Failures::break_copy(Owned owned, const Failure& failure) {
  // This thread may have forked inside a call.
  progress_.turns(owned).own_again();
  verdict_.break_with(owned, failure);
  under_way_.end_copy(owned, *verdict_.broken(owned));
}

Failure Failures::destroyed() {
  return {ErrorKind::aborted, "the communicator was destroyed", std::nullopt};
}

void Failures::threw(Owned owned, const Failure& failure) {
  break_with(owned, self_.failed_here(failure), true);
}

void Failures::call_threw(std::string_view call, Failure failure, std::string_view label) {
  failure.message = fmt::format("{}: {}", call, failure.message);
  const Owner owned(progress_);
  threw(owned, failure);
  raise(self_.for_caller(*verdict_.broken(owned), label));
}

std::optional<Failure> Failures::news() const {
  if (progress_.is_forked())
    return Failure{ErrorKind::aborted,
                   fmt::format("process {} is a forked child of the one that made this "
                               "communicator, and cannot use it: make another one in this process",
                               ::getpid()),
                   std::nullopt};
  return verdict_.heard();
}

bool Failures::take_news(Owned owned, bool may_wait) {
  if (verdict_.broken(owned) || !verdict_.take_notice(owned)) return false;
  const auto heard = news();
  if (heard) verdict_.notify();
  if (progress_.is_forked()) {
    break_with(owned, *heard, false);
    return true;
  }
  take_departures(owned);
  if (verdict_.broken(owned)) return true;
  const bool is_loss = heard && heard->kind == ErrorKind::peer_lost;
  if (!heard || (is_loss && may_wait)) return false;
  if (is_loss)
    end_by_loss(owned, *heard);
  else
    break_with(owned, *heard, false);
  return true;
}

void Failures::take_departures(Owned owned) {
  for (const auto& gone : departures_.take())
    under_way_.links(owned).peer_gone(gone.rank, gone.how, gone.why);
  if (!verdict_.suspicion(owned) || !may_be_symptom(*verdict_.suspicion(owned))) return;
  if (const auto loss = departures_.loss_behind(verdict_.suspicion(owned)))
    end_by_loss(owned, *loss);
}

void Failures::end_by_loss(Owned owned, const Failure& loss) {
  auto failure = loss;
  if (const auto name = under_way_.name_of_first(owned); !name.empty())
    failure.message.insert(0, name + ": ");
  break_with(owned, failure, false);
  // Leave out the call's name: each of the others adds its own.
  self_.control().flood(self_.id(), loss);
}

bool Failures::end_by_old_loss(Owned owned, Clock::time_point now, Clock::time_point& next) {
  const auto heard = departures_.last_loss();
  if (!heard || verdict_.broken(owned) || verdict_.suspicion(owned) || !under_way_.busy(owned))
    return false;
  const auto end = std::max(*heard, progress_.turns(owned).last_moved()) + kLastWords;
  if (now < end) {
    next = std::min(next, end);
    return false;
  }
  const auto loss = departures_.loss_behind();
  if (loss) end_by_loss(owned, *loss);
  return loss.has_value();
}

std::optional<Failure> Failures::first() const {
  if (progress_.is_forked()) return news();
  if (auto first = verdict_.first()) return first;
  if (auto loss = departures_.loss_behind()) return loss;
  // If another rank has ended it, streams may pass before this rank hears of it.
  const auto& way = under_way_.in_streams().device_way();
  return way ? way->cause() : std::nullopt;
}

std::string Failures::first_text() const {
  const auto failure = first();
  return failure ? self_.for_caller(*failure).message : "";
}

void Failures::hear(const Failure& failure) {
  if (!verdict_.hear(failure)) return;
  progress_.waiter().ring();
  audience_.heard(failure);
  // Abort now, because nobody may take the news: the host may not know of a graph's calls. Once
  // this communicator is closed, the others may still need what devices do.
  if (!verdict_.is_closed()) under_way_.in_streams().abort_device(failure);
}

void Failures::depart(std::uint32_t rank, Departure how, const Failure& why) {
  const auto here = self_.group().rank_of(rank);
  audience_.departed(rank, here);
  if (here) add_gone(*here, how, why);
}

void Failures::add_gone(Rank here, Departure how, const Failure& why) {
  departures_.add({here, how, why, progress_.now()});
  verdict_.notify();
  progress_.waiter().ring();
}

void Failures::note(Owned owned, const Failure& failure) noexcept {
  if (verdict_.is_closed()) return;
  try {
    // A late or different call is counted for all ranks that it waits for.
    const bool is_one = failure.kind != ErrorKind::timed_out && failure.kind != ErrorKind::mismatch;
    if (const auto culprit =
            is_one && failure.culprit ? self_.group().rank_of(*failure.culprit) : std::nullopt)
      return record_.losses(owned).failed(*culprit);
    if (const auto* first = under_way_.collectives(owned).started())
      for (const auto peer : first->plan->standing().awaited(PlanStanding::Which::in_the_way))
        record_.losses(owned).failed(peer);
    for (const auto& operation : under_way_.messages(owned).pending())
      if (operation->pattern.from) record_.losses(owned).failed(*operation->pattern.from);
  } catch (...) {
    // Memory ran out, which may be why it fails.
  }
}

void Failures::forget_locks() {
  departures_.forget_lock();
  verdict_.forget_lock();
}

}  // namespace ccoll
