// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/failures.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "comm/api/owner.hpp"
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
  if (!verdict_.broken()) return {};
  auto failure = *verdict_.broken();
  failure.message = "an earlier failure broke the communicator: " + failure.message;
  return tl::unexpected(std::move(failure));
}

void Failures::failed(Owned owned, Failure failure) {
  if (failure.kind == ErrorKind::exhausted && !failure.culprit) return threw(owned, failure);
  if (may_be_symptom(failure))
    if (const auto loss = departures_.loss_behind(failure)) return end_by_loss(owned, *loss);
  if (failure.kind == ErrorKind::peer_lost) return suspect(std::move(failure), kGrace);
  if (failure.kind == ErrorKind::corrupt) return suspect(std::move(failure), kShortGrace);
  // The receiver that got unexpected data tells which two ranks differ.
  if (communicator_.collectives(owned).counts_differ()) return suspect(std::move(failure), kGrace);
  break_with(owned, failure, true);
}

void Failures::suspect(Failure failure, Clock::duration grace) {
  if (!verdict_.suspect(std::move(failure), deadline_after(grace, communicator_.progress().now())))
    return;
  // A thread that is about to sleep has not counted on this deadline.
  communicator_.progress().waiter().ring();
}

void Failures::break_with(Owned owned, const Failure& failure, bool tell) {
  if (communicator_.progress().is_forked()) return break_copy(owned, failure);
  // The others cannot know which rank ran out.
  if (tell && failure.kind == ErrorKind::exhausted && !failure.culprit)
    return threw(owned, failure);
  const auto& self = communicator_.self();
  const bool first = !verdict_.broken();
  if (first) {
    communicator_.dumps().keep_standing(owned);
    note(owned, failure);
    verdict_.break_with(failure);
    if (log().tells(LogLevel::debug))
      log().debug("rank {}: a communicator ends: {}", self.rank(),
                  self.for_caller(failure).message);
  }
  communicator_.links().revoke();
  communicator_.collectives(owned).end_all(
      [&](const Operation& each) { return self.for_caller(*verdict_.broken(), each.label); });
  communicator_.messages(owned).end_all(*verdict_.broken());
  communicator_.streams().calls().abort_device(owned, *verdict_.broken(),
                                               communicator_.is_closed());
  communicator_.streams().calls().end_with(owned, self.for_caller(*verdict_.broken()));
  communicator_.waits().take_back(owned);
  if (tell) self.control().flood(self.id(), *verdict_.broken());
  if (first && record_.has_file() && !communicator_.is_closed())
    communicator_.dumps().write(owned, Record::kFailureDump);
}

void Failures::break_copy(Owned owned, const Failure& failure) {
  const auto& self = communicator_.self();
  // This thread may have forked inside a call.
  communicator_.progress().turns().own_again();
  verdict_.break_with(failure);
  communicator_.collectives(owned).end_all(
      [&](const Operation& each) { return self.for_caller(*verdict_.broken(), each.label); });
  communicator_.messages(owned).end_pending(*verdict_.broken());
  communicator_.streams().calls().end_copy(owned, self.for_caller(*verdict_.broken()));
}

Failure Failures::destroyed() {
  return {ErrorKind::aborted, "the communicator was destroyed", std::nullopt};
}

void Failures::threw(Owned owned, const Failure& failure) {
  break_with(owned, communicator_.self().failed_here(failure), true);
}

void Failures::call_threw(std::string_view call, Failure failure, std::string_view label) {
  failure.message = fmt::format("{}: {}", call, failure.message);
  const Communicator::Implementation::Owner owned(communicator_);
  threw(owned, failure);
  raise(communicator_.self().for_caller(*verdict_.broken(), label));
}

std::optional<Failure> Failures::news() const {
  if (communicator_.progress().is_forked())
    return Failure{ErrorKind::aborted,
                   fmt::format("process {} is a forked child of the one that made this "
                               "communicator, and cannot use it: make another one in this process",
                               ::getpid()),
                   std::nullopt};
  return verdict_.heard();
}

bool Failures::take_news(Owned owned, bool may_wait) {
  if (verdict_.broken() || !verdict_.take_notice()) return false;
  const auto heard = news();
  if (heard) verdict_.notify();
  if (communicator_.progress().is_forked()) {
    break_with(owned, *heard, false);
    return true;
  }
  take_departures(owned);
  if (verdict_.broken()) return true;
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
    communicator_.links().peer_gone(gone.rank, gone.how, gone.why);
  if (!verdict_.suspicion() || !may_be_symptom(*verdict_.suspicion())) return;
  if (const auto loss = departures_.loss_behind(verdict_.suspicion())) end_by_loss(owned, *loss);
}

void Failures::end_by_loss(Owned owned, const Failure& loss) {
  const auto& self = communicator_.self();
  const auto& collectives = communicator_.collectives(owned);
  const auto& messages = communicator_.messages(owned);
  std::string name;
  if (!collectives.empty())
    name = self.name_of(collectives.front()->run, collectives.front()->label) + ": ";
  else if (messages.busy())
    name = messages.name_of(*messages.pending().front()) + ": ";
  auto failure = loss;
  failure.message.insert(0, name);
  break_with(owned, failure, false);
  // Leave out the call's name: each of the others adds its own.
  self.control().flood(self.id(), loss);
}

bool Failures::end_by_old_loss(Owned owned, Clock::time_point now, Clock::time_point& next) {
  const auto heard = departures_.last_loss();
  if (!heard || verdict_.broken() || verdict_.suspicion() || !communicator_.busy(owned))
    return false;
  const auto end = std::max(*heard, communicator_.progress().turns().last_moved()) + kLastWords;
  if (now < end) {
    next = std::min(next, end);
    return false;
  }
  const auto loss = departures_.loss_behind();
  if (loss) end_by_loss(owned, *loss);
  return loss.has_value();
}

std::optional<Failure> Failures::first() const {
  if (communicator_.progress().is_forked()) return news();
  if (auto first = verdict_.first()) return first;
  if (auto loss = departures_.loss_behind()) return loss;
  // If another rank has ended it, streams may pass before this rank hears of it.
  const auto& way = communicator_.streams().calls().device_way();
  return way ? way->cause() : std::nullopt;
}

std::string Failures::first_text() const {
  const auto failure = first();
  return failure ? communicator_.self().for_caller(*failure).message : "";
}

void Failures::hear(const Failure& failure) {
  if (!verdict_.hear(failure)) return;
  communicator_.comparison().end_farewells();
  communicator_.progress().waiter().ring();
  communicator_.groups().parent_broke(failure);
  // Abort now, because nobody may take the news: the host may not know of a graph's calls. Once
  // this communicator is closed, the others may still need what devices do.
  if (!communicator_.is_closed()) communicator_.streams().calls().abort_device(failure);
}

void Failures::depart(std::uint32_t rank, Departure how, const Failure& why) {
  const auto here = communicator_.self().group().rank_of(rank);
  communicator_.comparison().departed(rank, here);
  if (!here) return;
  departures_.add({*here, how, why, communicator_.progress().now()});
  verdict_.notify();
  communicator_.progress().waiter().ring();
}

void Failures::note(Owned owned, const Failure& failure) noexcept {
  if (communicator_.is_closed()) return;
  try {
    // A late or different call is counted for all ranks that it waits for.
    const bool is_one = failure.kind != ErrorKind::timed_out && failure.kind != ErrorKind::mismatch;
    if (const auto culprit = is_one && failure.culprit
                                 ? communicator_.self().group().rank_of(*failure.culprit)
                                 : std::nullopt)
      return record_.losses().failed(*culprit);
    if (const auto* first = communicator_.collectives(owned).started())
      for (const auto peer : first->plan->standing().awaited(PlanStanding::Which::in_the_way))
        record_.losses().failed(peer);
    for (const auto& operation : communicator_.messages(owned).pending())
      if (operation->pattern.from) record_.losses().failed(*operation->pattern.from);
  } catch (...) {
    // Memory ran out, which may be why it fails.
  }
}

void Failures::forget_locks() {
  departures_.forget_lock();
  verdict_.forget_lock();
}

}  // namespace ccoll
