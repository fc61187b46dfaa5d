// SPDX-License-Identifier: Apache-2.0
// How a communicator learns that a call cannot succeed, and what it tells its caller and its peers.
#include <unistd.h>

#include <algorithm>

#include "comm/api/owner.hpp"
#include "comm/progress/background.hpp"
#include "core/deadline.hpp"
#include "core/text.hpp"
#include "engine/describe.hpp"
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

/// Up to this many ranks are named with their hosts and processes, more by their numbers.
constexpr std::size_t kMostNamed = 16;

/// Whether a link may fail like this because a process has ended.
bool may_be_symptom(const Failure& failure) {
  return failure.kind == ErrorKind::peer_lost || failure.kind == ErrorKind::corrupt;
}

/// Whether its text uses the communicator's numbers already.
bool names_ranks_of_group(const Failure& failure) {
  return failure.kind == ErrorKind::timed_out || failure.kind == ErrorKind::mismatch;
}

}  // namespace

Failure Communicator::Implementation::for_caller(Failure failure, std::string_view label) const {
  const auto here = failure.culprit ? group_.rank_of(*failure.culprit) : std::nullopt;
  if (here && !group_.numbered_as_job() && !names_ranks_of_group(failure))
    failure.message +=
        fmt::format(" (rank {} of the job is rank {} here)", *failure.culprit, *here);
  failure.culprit = here;
  if (!options_.name.empty()) failure.message.insert(0, shown_label(name_) + ": ");
  if (!label.empty()) failure.message.insert(0, quoted_label(label) + ": ");
  return failure;
}

std::string Communicator::Implementation::name_of(const CollectiveOperation& operation) const {
  return name_of(operation.run.sequence, operation.run.signature, operation.label);
}

std::string Communicator::Implementation::name_of(std::uint64_t sequence,
                                                  const Signature& signature,
                                                  std::string_view label) const {
  return fmt::format("{}, by {} (call {}{}) on rank {}", describe(signature),
                     to_string(static_cast<Algorithm>(signature.algorithm)), sequence,
                     label_behind(label), rank());
}

std::string Communicator::Implementation::ranks_text(const std::vector<Rank>& ranks) const {
  std::vector<std::string> names;
  const auto named = std::min(ranks.size(), kMostNamed);
  for (const auto rank : std::span(ranks).first(named)) {
    const auto job_rank = group_.job_rank(rank);
    names.push_back(group_.numbered_as_job()
                        ? member_->name_of(rank)
                        : fmt::format("rank {} (in the job {})", rank, member_->name_of(job_rank)));
  }
  if (const std::vector<Rank> more(ranks.begin() + static_cast<std::ptrdiff_t>(named), ranks.end());
      !more.empty())
    names.push_back(list_ranks(more));
  return names.empty() ? "nobody" : joined(names);
}

Status Communicator::Implementation::usable(Owned owned) {
  take_news(owned);
  if (!verdict_.broken()) return {};
  auto failure = *verdict_.broken();
  failure.message = "an earlier failure broke the communicator: " + failure.message;
  return tl::unexpected(std::move(failure));
}

void Communicator::Implementation::failed(Owned owned, Failure failure) {
  if (failure.kind == ErrorKind::exhausted && !failure.culprit) return threw(owned, failure);
  if (may_be_symptom(failure))
    if (const auto loss = departures_.loss_behind(failure)) return end_by_loss(owned, *loss);
  if (failure.kind == ErrorKind::peer_lost) return suspect(owned, std::move(failure), kGrace);
  if (failure.kind == ErrorKind::corrupt) return suspect(owned, std::move(failure), kShortGrace);
  // The receiver that got unexpected data tells which two ranks differ.
  if (collectives_(owned).counts_differ()) return suspect(owned, std::move(failure), kGrace);
  break_with(owned, failure, true);
}

void Communicator::Implementation::suspect(Owned /*owned*/, Failure failure,
                                           Clock::duration grace) {
  if (!verdict_.suspect(std::move(failure), deadline_after(grace))) return;
  // A thread that is about to sleep has not counted on this deadline.
  waiter_->ring();
}

void Communicator::Implementation::break_with(Owned owned, const Failure& failure, bool tell) {
  if (forked_.load(std::memory_order_relaxed)) return break_copy(owned, failure);
  // The others cannot know which rank ran out.
  if (tell && failure.kind == ErrorKind::exhausted && !failure.culprit)
    return threw(owned, failure);
  const bool first = !verdict_.broken();
  if (first) {
    dumps_.keep_standing(owned);
    note_failure(owned, failure);
    verdict_.break_with(failure);
    if (log().tells(LogLevel::debug))
      log().debug("rank {}: a communicator ends: {}", rank(), for_caller(failure).message);
  }
  links_.revoke();
  collectives_(owned).end_all(
      [&](const Operation& each) { return for_caller(*verdict_.broken(), each.label); });
  messages_(owned).end_all(*verdict_.broken());
  streams_.calls().abort_device(owned, *verdict_.broken(), closed_.load());
  streams_.calls().end_with(owned, for_caller(*verdict_.broken()));
  waits_.take_back(owned);
  if (tell) member_->control().flood(id_, *verdict_.broken());
  if (first && record_.has_file() && !closed_.load()) dumps_.write(owned, Record::kFailureDump);
}

void Communicator::Implementation::forked() {
  forked_.store(true);
  // Threads that may have held these do not exist here.
  turns_.forget();
  streams_.calls().forked();
  record_.forget_locks();
  departures_.forget_lock();
  verdict_.forget_lock();
  comparison_.forget_locks();
  waits_.stands().forget_lock();
  groups_.forget_lock();
  verdict_.notify();
}

void Communicator::Implementation::break_copy(Owned owned, const Failure& failure) {
  // This thread may have forked inside a call.
  turns_.own_again();
  verdict_.break_with(failure);
  collectives_(owned).end_all(
      [&](const Operation& each) { return for_caller(*verdict_.broken(), each.label); });
  messages_(owned).end_pending(*verdict_.broken());
  streams_.calls().end_copy(owned, for_caller(*verdict_.broken()));
}

Failure Communicator::Implementation::destroyed() {
  return {ErrorKind::aborted, "the communicator was destroyed", std::nullopt};
}

Failure Communicator::Implementation::failed_here(const Failure& failure) const {
  return {failure.kind, fmt::format("rank {} failed: {}", rank(), failure.message), job_rank()};
}

void Communicator::Implementation::threw(Owned owned, const Failure& failure) {
  break_with(owned, failed_here(failure), true);
}

void Communicator::Implementation::call_threw(std::string_view call, Failure failure,
                                              std::string_view label) {
  failure.message = fmt::format("{}: {}", call, failure.message);
  const Owner owned(*this);
  threw(owned, failure);
  raise(for_caller(*verdict_.broken(), label));
}

std::optional<Failure> Communicator::Implementation::news() const {
  if (forked_.load(std::memory_order_relaxed))
    return Failure{ErrorKind::aborted,
                   fmt::format("process {} is a forked child of the one that made this "
                               "communicator, and cannot use it: make another one in this process",
                               ::getpid()),
                   std::nullopt};
  return verdict_.heard();
}

bool Communicator::Implementation::take_news(Owned owned, bool may_wait) {
  if (verdict_.broken() || !verdict_.take_notice()) return false;
  const auto heard = news();
  if (heard) verdict_.notify();
  if (is_forked()) {
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

void Communicator::Implementation::take_departures(Owned owned) {
  for (const auto& gone : departures_.take()) links_.peer_gone(gone.rank, gone.how, gone.why);
  if (!verdict_.suspicion() || !may_be_symptom(*verdict_.suspicion())) return;
  if (const auto loss = departures_.loss_behind(verdict_.suspicion())) end_by_loss(owned, *loss);
}

void Communicator::Implementation::end_by_loss(Owned owned, const Failure& loss) {
  auto failure = loss;
  if (!collectives_(owned).empty())
    failure.message = fmt::format("{}: {}", name_of(*collectives_(owned).front()), failure.message);
  else if (messages_(owned).busy())
    failure.message = fmt::format(
        "{}: {}", messages_(owned).name_of(*messages_(owned).pending().front()), failure.message);
  break_with(owned, failure, false);
  // Leave out the call's name: each of the others adds its own.
  member_->control().flood(id_, loss);
}

std::optional<Failure> Communicator::Implementation::ending_loss(Owned owned, Clock::time_point now,
                                                                 Clock::time_point& next) const {
  const auto heard = departures_.last_loss();
  if (!heard || verdict_.broken() || verdict_.suspicion() || !busy(owned)) return std::nullopt;
  const auto end = std::max(*heard, turns_.last_moved()) + kLastWords;
  if (now >= end) return departures_.loss_behind();
  next = std::min(next, end);
  return std::nullopt;
}

std::optional<Failure> Communicator::Implementation::first_failure() const {
  if (is_forked()) return news();
  if (auto first = verdict_.first()) return first;
  if (auto loss = departures_.loss_behind()) return loss;
  // If another rank has ended it, streams may pass before this rank hears of it.
  const auto& way = streams_.calls().device_way();
  return way ? way->cause() : std::nullopt;
}

std::string Communicator::Implementation::first_error() const {
  const auto failure = first_failure();
  return failure ? for_caller(*failure).message : "";
}

void Communicator::Implementation::failed(std::uint64_t communicator, const Failure& failure) {
  const bool to_all = communicator == kEveryCommunicator;
  if (to_all && failure.culprit && !group_.rank_of(*failure.culprit)) return;
  hear(failure);
  dumps_.request(std::string(Record::kFailureDump));
}

void Communicator::Implementation::hear(const Failure& failure) {
  if (!verdict_.hear(failure)) return;
  comparison_.end_farewells();
  waiter_->ring();
  groups_.parent_broke(failure);
  // Abort now, because nobody may take the news: the host may not know of a graph's calls. Once
  // this communicator is closed, the others may still need what devices do.
  if (!closed_.load()) streams_.calls().abort_device(failure);
}

void Communicator::Implementation::end_work(std::string_view reason) {
  const Owner owned(*this);
  if (!busy(owned)) return;
  abort(reason);
  take_news(owned);
}

void Communicator::Implementation::abort(std::string_view reason) {
  if (forked_.load(std::memory_order_relaxed)) raise(for_caller(news().value()));
  const Failure failure{
      ErrorKind::aborted,
      fmt::format("rank {} aborted{}{}", rank(), reason.empty() ? "" : ": ", reason),
      group_.job_rank(rank())};
  // Act here at once, whatever the service thread does; it also writes a dump if one is wanted.
  hear(failure);
  member_->control().flood(id_, failure);
}

void Communicator::Implementation::left(std::uint32_t rank) {
  const Failure why{ErrorKind::peer_lost, fmt::format("rank {} has left", rank), rank};
  depart(rank, Departure::left, why);
}

void Communicator::Implementation::lost(std::uint32_t rank, const Failure& failure) {
  // Devices that make calls wait for one another, and no link tells them of a loss.
  const bool ends_all = rank == job_rank() || options_.device.ordinal != kHost;
  if (ends_all) return failed(kEveryCommunicator, failure);
  depart(rank, Departure::lost, failure);
}

void Communicator::Implementation::depart(std::uint32_t rank, Departure how, const Failure& why) {
  const auto here = group_.rank_of(rank);
  comparison_.departed(rank, here);
  if (!here) return;
  departures_.add({*here, how, why, Clock::now()});
  verdict_.notify();
  waiter_->ring();
}

}  // namespace ccoll
