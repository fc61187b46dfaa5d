// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/deadline.hpp"

namespace ccoll {
namespace {

/// How often a rank that knows of differing counts checks for data that it did not expect.
constexpr std::chrono::milliseconds kLookForCounts{10};

/// How often a rank announces the subgroup that it makes: others do not remember it, because it may
/// be outdated when it arrives.
constexpr std::chrono::milliseconds kAnnounceAgain{250};

/// By this long after a goodbye, the rank's earlier connections have arrived. (If there is one, the
/// end of its stream tells of the leaving, after all that the peer sent.)
constexpr std::chrono::milliseconds kSettled{1000};

/// After this long without movement, a rank may be waiting for one whose goodbye was lost.
constexpr std::chrono::milliseconds kDoubtful{1000};

/// After this time, ask whether the awaited rank has left, even if other operations move.
constexpr std::chrono::milliseconds kAskAfter{500};

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

void Limits::set(Owned owned, Operation& operation, Clock::time_point now,
                 std::chrono::milliseconds timeout) const {
  operation.begun = now;
  operation.watch(owned) = {};
  operation.deadline = deadline_after(timeout.count() > 0 ? timeout : self_.options().timeout, now);
}

void Limits::set(Owned owned, CollectiveOperation& operation, Clock::time_point now,
                 std::chrono::milliseconds timeout) const {
  set(owned, static_cast<Operation&>(operation), now, timeout);
  operation.publish_at(owned) = now + kPublishAfter;
}

void Limits::set_gated(Owned owned, CollectiveOperation& operation, Clock::time_point now) const {
  // A call that counted as reached waits for its stream again once all ranks have entered it.
  if (!operation.gate->reached()) operation.deadline = Clock::time_point::max();
  if (operation.deadline != Clock::time_point::max() || !operation.gate->reached()) return;
  set(owned, operation, now, operation.timeout);
}

bool Limits::end_suspicion(Owned owned, Clock::time_point now, Clock::time_point& next) {
  auto& verdict = failures_.verdict();
  if (!verdict.suspicion(owned) || verdict.broken(owned)) return false;
  if (under_way_.collectives(owned).counts_differ()) {
    if (const auto unread = comparison_.unread(owned, false)) {
      failures_.break_with(owned, *unread, true);
      return true;
    }
    next = std::min(next, now + kLookForCounts);
  }
  if (verdict.take_label(owned) || now >= verdict.suspected_until(owned)) {
    failures_.break_with(owned, *verdict.suspicion(owned), true);
    return true;
  }
  next = std::min(next, verdict.suspected_until(owned));
  return false;
}

Clock::time_point Limits::look(Owned owned, Clock::time_point now, Clock::time_point next) {
  auto& verdict = failures_.verdict();
  if (failures_.end_by_old_loss(owned, now, next)) return next;
  const bool at_all = sweep_.begins(
      now, under_way_.collectives(owned).size() + under_way_.messages(owned).pending().size());
  // Not sooner: every thread that begins an operation would wake the service thread for it.
  if (!at_all) next = std::min(next, std::max(sweep_.next(), now + kPublishAfter));
  const auto gone = failures_.departures().long_gone(kSettled, now, next);
  // While there is a suspicion, no round shows what has come: the suspicion ends the call soon.
  if (at_all && !verdict.suspicion(owned) && !gone.empty() && in_vain(owned, gone)) {
    // Their data may have come after the last round, however long ago they left.
    if (progress_.operations().advance(owned, Attention::everyone) || verdict.broken(owned) ||
        verdict.suspicion(owned))
      return now;
    if (const auto failure = in_vain(owned, gone)) {
      failures_.break_with(owned, *failure, true);
      return next;
    }
  }
  for (const auto& operation : under_way_.collectives(owned)) {
    if (look_at(owned, *operation, now, next)) return next;
    if (!at_all) return next;  // the others stand behind the first
  }
  if (at_all) look_at_messages(owned, now, next);
  return next;
}

bool Limits::look_at(Owned owned, CollectiveOperation& operation, Clock::time_point now,
                     Clock::time_point& next) {
  const auto& verdict = failures_.verdict();
  if (operation.gate) set_gated(owned, operation, now);
  if (operation.started)
    operation.watch(owned).stands.look(operation.plan->standing().steps_taken(), now);
  // The suspected peers may have been late themselves, as this call is now: they, or the end of the
  // suspicion, will soon tell what broke the link.
  if (now >= operation.deadline && !verdict.suspicion(owned)) {
    Failure late{
        ErrorKind::timed_out,
        fmt::format("{} timed out after {:.0f} ms, {}",
                    self_.name_of(operation.run, operation.label),
                    milliseconds(now - operation.begun), waits_.whereabouts(owned, operation, now)),
        std::nullopt};
    if (operation.started) {
      auto needed = operation.plan->standing().awaited();
      std::ranges::copy(operation.plan->standing().silent(), std::back_inserter(needed));
      auto culprit = waits_.stands().absent(operation.run.sequence, needed);
      if (!culprit && !needed.empty()) culprit = needed.front();
      if (culprit) late.culprit = self_.group().job_rank(*culprit);
    }
    failures_.break_with(owned, late, true);
    return true;
  }
  if (!verdict.suspicion(owned)) next = std::min(next, operation.deadline);
  if (!operation.started) {
    if (operation.is_held_back() && &operation == under_way_.collectives(owned).front().get())
      waits_.stands().set(
          StandReport{operation.run.sequence, std::string(operation.not_begun()), operation.begun});
    return false;
  }
  if (now >= operation.publish_at(owned)) {
    if (const auto unread =
            verdict.suspicion(owned) ? std::nullopt : comparison_.unread(owned, false)) {
      failures_.break_with(owned, *unread, true);
      return true;
    }
    publish(owned, operation, now);
  }
  if (waits_.seek_cycle(owned, operation, operation.run.sequence, now, next))
    waits_.ask_for_stands(owned, operation, now);
  waits_.look_at_long_wait(owned, operation, now, next);
  next = std::min(next, operation.publish_at(owned));
  return false;
}

void Limits::publish(Owned owned, CollectiveOperation& operation, Clock::time_point now) {
  auto& control = self_.control();
  if (const auto& announcement = births_.announcement(owned)) {
    control.publish(announcement->waiting, announcement->to);
    operation.publish_at(owned) = now + kAnnounceAgain;
    return;
  }
  control.publish({self_.id(), operation.run.sequence, operation.run.signature, operation.note()},
                  self_.group().ring_neighbours());
  if (now - operation.begun >= Waits::kAgain) {
    const auto silent = operation.plan->standing().awaited(PlanStanding::Which::never_connected);
    waits_.look_for(silent);
    waits_.ask_whether_closed(owned, silent);
  }
  operation.publish_at(owned) = now + Waits::kAgain;
  waits_.report(owned);
}

void Limits::look_at_messages(Owned owned, Clock::time_point now, Clock::time_point& next) {
  auto& messages = under_way_.messages(owned);
  const auto& verdict = failures_.verdict();
  const bool doubtful = now - progress_.turns(owned).last_moved() >= kDoubtful;
  if (messages.busy() && !doubtful)
    next = std::min(next, progress_.turns(owned).last_moved() + kDoubtful);
  const bool looks = doubtful && waits_.looks_again(owned, now);
  const bool may_ask = waits_.messages_ask_again(owned, now);
  std::vector<Rank> silent, unheard;
  Stands::Question asks{kFirstMessage, now, {}};
  std::vector<std::shared_ptr<MessageOperation>> late;
  // Go from the end: give_up() fills the gap with an operation that was already looked at.
  for (auto left = messages.pending().size(); left-- > 0;) {
    const auto operation = messages.pending()[left];
    operation->watch(owned).stands.look(messages.progress_of(*operation), now);
    if (now >= operation->deadline && !verdict.suspicion(owned)) {
      Failure failure{
          ErrorKind::timed_out,
          fmt::format("{} timed out after {:.0f} ms, {}, for {:.0f} ms; it waits for {}{}",
                      messages.name_of(*operation), milliseconds(now - operation->begun),
                      messages.standing(*operation),
                      milliseconds(operation->watch(owned).stands.until(now)),
                      self_.ranks_text(messages.awaited(*operation)),
                      waits_.cycle_of(kFirstMessage + operation->record)),
          std::nullopt};
      if (const auto awaited = messages.awaited(*operation); !awaited.empty())
        failure.culprit = self_.group().job_rank(awaited.front());
      if (operation->what != MessageOperation::What::probe)
        return failures_.break_with(owned, failure, true);
      // Nobody else knows of a probe.
      messages.give_up(*operation, std::move(failure));
      progress_.turns(owned).end_one();
      continue;
    }
    if (!verdict.suspicion(owned)) next = std::min(next, operation->deadline);
    if (now - operation->begun >= kPublishAfter && !waits_.are_reported(owned))
      waits_.report(owned);
    if (!waits_.are_reported(owned)) next = std::min(next, operation->begun + kPublishAfter);
    waits_.seek_cycle(owned, *operation, kFirstMessage + operation->record, now, next);
    const auto wait = waits_.long_wait(owned, *operation, now, next);
    if (wait == LongWait::asked)
      std::ranges::copy(messages.awaited(*operation), std::back_inserter(asks.ranks));
    if (wait == LongWait::logged) late.push_back(operation);
    if (looks && operation->pattern.from && !messages.hears(*operation->pattern.from))
      silent.push_back(*operation->pattern.from);
    if (now - operation->begun < kAskAfter)
      next = std::min(next, operation->begun + kAskAfter);
    else if (may_ask)
      std::ranges::copy_if(messages.awaited(*operation), std::back_inserter(unheard),
                           [&](Rank rank) { return !messages.hears(rank); });
  }
  waits_.look_for(silent);
  waits_.ask_for_messages(owned, std::move(unheard), now);
  if (!asks.ranks.empty()) waits_.ask_for_stands(owned, std::move(asks));
  waits_.log_long_waits(owned, late, now);
}

std::optional<Failure> Limits::in_vain(Owned owned, const std::vector<Rank>& gone) const {
  const auto& messages = under_way_.messages(owned);
  const auto has_left = [&](Rank rank) { return std::ranges::find(gone, rank) != gone.end(); };
  if (const auto* first = under_way_.collectives(owned).started()) {
    const auto silent = first->plan->standing().awaited(PlanStanding::Which::never_connected);
    if (const auto found = std::ranges::find_if(silent, has_left); found != silent.end())
      return Failure{
          ErrorKind::peer_lost,
          fmt::format("{} waits for {}, which has left", self_.name_of(first->run, first->label),
                      self_.ranks_text({*found})),
          self_.group().job_rank(*found)};
  }
  for (const auto& operation : messages.pending())
    if (messages.in_vain(*operation, has_left))
      return Failure{ErrorKind::peer_lost,
                     fmt::format("{}, {}: it waits for {}, which left",
                                 messages.name_of(*operation), messages.standing(*operation),
                                 self_.ranks_text(messages.awaited(*operation))),
                     operation->pattern.from
                         ? std::optional(self_.group().job_rank(*operation->pattern.from))
                         : std::nullopt};
  return std::nullopt;
}

}  // namespace ccoll
