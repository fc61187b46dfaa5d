// SPDX-License-Identifier: Apache-2.0
// The limits of calls: calls are looked at while they wait, and end when their time is over or when
// they wait for ranks that have left.
#include <algorithm>
#include <chrono>

#include "comm/api/implementation.hpp"

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

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

Clock::time_point Communicator::Implementation::look_at_limits(Owned owned, Clock::time_point now) {
  dumps_.write_requested(owned);
  turns_.look(now);
  auto next = now + std::chrono::seconds(1);
  if (verdict_.suspicion() && !verdict_.broken()) {
    if (collectives_(owned).counts_differ()) {
      if (const auto unread = comparison_.unread(owned, false)) {
        break_with(owned, *unread, true);
        return next;
      }
      next = std::min(next, now + kLookForCounts);
    }
    if (verdict_.take_label() || now >= verdict_.suspected_until()) {
      break_with(owned, *verdict_.suspicion(), true);
      return next;
    }
    next = std::min(next, verdict_.suspected_until());
  }
  if (auto standing = streams_.calls().supervise(owned, now, next);
      !standing && !verdict_.broken()) {
    threw(owned, standing.error());
    return next;
  }
  if (const auto loss = ending_loss(owned, now, next)) {
    end_by_loss(owned, *loss);
    return next;
  }
  const bool at_all =
      sweep_(owned).begins(now, collectives_(owned).size() + messages_(owned).pending().size());
  // Not sooner: every thread that begins an operation would wake the service thread for it.
  if (!at_all) next = std::min(next, std::max(sweep_(owned).next(), now + kPublishAfter));
  const auto gone = departures_.long_gone(kSettled, now, next);
  // While there is a suspicion, no round shows what has come: the suspicion ends the call soon.
  if (at_all && !verdict_.suspicion() && !gone.empty() && in_vain(owned, gone)) {
    // Their data may have come after the last round, however long ago they left.
    if (progress(owned, Messages::Attention::everyone) || verdict_.broken() || verdict_.suspicion())
      return now;
    if (const auto failure = in_vain(owned, gone)) {
      break_with(owned, *failure, true);
      return next;
    }
  }
  for (const auto& operation : collectives_(owned)) {
    if (supervise_collective(owned, *operation, now, next)) return next;
    if (!at_all) return next;  // the others stand behind the first
  }
  if (at_all) supervise_messages(owned, now, next);
  return next;
}

bool Communicator::Implementation::supervise_collective(Owned owned, CollectiveOperation& operation,
                                                        Clock::time_point now,
                                                        Clock::time_point& next) {
  if (operation.gate) limit_gated(owned, operation, now);
  if (operation.started) operation.stands.look(operation.plan->steps_taken(), now);
  // The suspected peers may have been late themselves, as this call is now: they, or the end of the
  // suspicion, will soon tell what broke the link.
  if (now >= operation.deadline && !verdict_.suspicion()) {
    Failure late{
        ErrorKind::timed_out,
        fmt::format("{} timed out after {:.0f} ms, {}", name_of(operation),
                    milliseconds(now - operation.begun), waits_.whereabouts(operation, now)),
        std::nullopt};
    if (operation.started) {
      auto needed = operation.plan->awaited();
      std::ranges::copy(operation.plan->silent(), std::back_inserter(needed));
      auto culprit = waits_.stands().absent(operation.run.sequence, needed);
      if (!culprit && !needed.empty()) culprit = needed.front();
      if (culprit) late.culprit = group_.job_rank(*culprit);
    }
    break_with(owned, late, true);
    return true;
  }
  if (!verdict_.suspicion()) next = std::min(next, operation.deadline);
  if (!operation.started) {
    if (operation.is_held_back() && &operation == collectives_(owned).front().get())
      waits_.stands().set(
          StandReport{operation.run.sequence, std::string(operation.not_begun()), operation.begun});
    return false;
  }
  if (now >= operation.publish_at) {
    if (const auto unread =
            verdict_.suspicion() ? std::nullopt : comparison_.unread(owned, false)) {
      break_with(owned, *unread, true);
      return true;
    }
    publish(owned, operation, now);
  }
  if (waits_.seek_cycle(owned, operation, operation.run.sequence, now, next))
    waits_.ask_for_stands(owned, operation, now);
  waits_.look_at_long_wait(owned, operation, now, next);
  next = std::min(next, operation.publish_at);
  return false;
}

void Communicator::Implementation::publish(Owned owned, CollectiveOperation& operation,
                                           Clock::time_point now) {
  auto& control = member_->control();
  if (const auto& announcement = groups_.announcement()) {
    control.publish(announcement->waiting, announcement->to);
    operation.publish_at = now + kAnnounceAgain;
    return;
  }
  control.publish({id_, operation.run.sequence, operation.run.signature, operation.note()},
                  group_.ring_neighbours());
  if (now - operation.begun >= Waits::kAgain)
    waits_.look_for(operation.plan->awaited(Plan::Which::never_connected));
  operation.publish_at = now + Waits::kAgain;
  waits_.report(owned);
}

void Communicator::Implementation::supervise_messages(Owned owned, Clock::time_point now,
                                                      Clock::time_point& next) {
  const bool doubtful = now - turns_.last_moved() >= kDoubtful;
  if (messages_(owned).busy() && !doubtful) next = std::min(next, turns_.last_moved() + kDoubtful);
  const bool looks = doubtful && waits_.looks_again(owned, now);
  std::vector<Rank> silent;
  Stands::Question asks{kFirstMessage, now, {}};
  std::vector<std::shared_ptr<MessageOperation>> late;
  // Go from the end: give_up() fills the gap with an operation that was already looked at.
  for (auto left = messages_(owned).pending().size(); left-- > 0;) {
    const auto operation = messages_(owned).pending()[left];
    operation->stands.look(messages_(owned).progress_of(*operation), now);
    if (now >= operation->deadline && !verdict_.suspicion()) {
      Failure failure{
          ErrorKind::timed_out,
          fmt::format("{} timed out after {:.0f} ms, {}, for {:.0f} ms; it waits for {}{}",
                      messages_(owned).name_of(*operation), milliseconds(now - operation->begun),
                      messages_(owned).standing(*operation),
                      milliseconds(operation->stands.until(now)),
                      ranks_text(messages_(owned).awaited(*operation)),
                      waits_.cycle_of(kFirstMessage + operation->record)),
          std::nullopt};
      if (const auto awaited = messages_(owned).awaited(*operation); !awaited.empty())
        failure.culprit = group_.job_rank(awaited.front());
      if (operation->what != MessageOperation::What::probe) return break_with(owned, failure, true);
      // Nobody else knows of a probe.
      messages_(owned).give_up(*operation, std::move(failure));
      turns_.end_one();
      continue;
    }
    if (!verdict_.suspicion()) next = std::min(next, operation->deadline);
    if (now - operation->begun >= kPublishAfter && !waits_.are_reported(owned))
      waits_.report(owned);
    if (!waits_.are_reported(owned)) next = std::min(next, operation->begun + kPublishAfter);
    waits_.seek_cycle(owned, *operation, kFirstMessage + operation->record, now, next);
    const auto wait = waits_.long_wait(owned, *operation, now, next);
    if (wait == LongWait::asked)
      std::ranges::copy(messages_(owned).awaited(*operation), std::back_inserter(asks.ranks));
    if (wait == LongWait::logged) late.push_back(operation);
    if (looks && operation->pattern.from && !messages_(owned).hears(*operation->pattern.from))
      silent.push_back(*operation->pattern.from);
  }
  waits_.look_for(silent);
  if (!asks.ranks.empty()) waits_.ask_for_stands(owned, std::move(asks));
  waits_.log_long_waits(owned, late, now);
}

std::optional<Failure> Communicator::Implementation::in_vain(Owned owned,
                                                             const std::vector<Rank>& gone) const {
  const auto has_left = [&](Rank rank) { return std::ranges::find(gone, rank) != gone.end(); };
  if (const auto* first = collectives_(owned).started()) {
    const auto silent = first->plan->awaited(Plan::Which::never_connected);
    if (const auto found = std::ranges::find_if(silent, has_left); found != silent.end())
      return Failure{
          ErrorKind::peer_lost,
          fmt::format("{} waits for {}, which has left", name_of(*first), ranks_text({*found})),
          group_.job_rank(*found)};
  }
  for (const auto& operation : messages_(owned).pending())
    if (messages_(owned).in_vain(*operation, has_left))
      return Failure{
          ErrorKind::peer_lost,
          fmt::format("{}, {}: it waits for {}, which left", messages_(owned).name_of(*operation),
                      messages_(owned).standing(*operation),
                      ranks_text(messages_(owned).awaited(*operation))),
          operation->pattern.from ? std::optional(group_.job_rank(*operation->pattern.from))
                                  : std::nullopt};
  return std::nullopt;
}

}  // namespace ccoll
