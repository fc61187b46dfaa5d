// SPDX-License-Identifier: Apache-2.0
// How a communicator learns that a call cannot succeed, and what it tells its caller and its peers.
#include <algorithm>

#include "comm/background.hpp"
#include "comm/implementation.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "engine/describe.hpp"

namespace ccoll {
namespace {

/// A broken link is only a symptom: so long the control path may still bring the cause.
constexpr std::chrono::milliseconds kGrace{400};

/// A rank that has waited so long publishes what it waits for.
constexpr std::chrono::milliseconds kPublishAfter{50};

/// Nothing having moved for so long, a connection that a rank made before it left has come. (Where
/// one is there, the end of its stream tells of the peer's leaving, after all that it sent.)
constexpr std::chrono::milliseconds kSettled{1000};

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

std::string Communicator::Implementation::name_of(const CollectiveOperation& operation) const {
  return fmt::format("{} (call {}) on rank {}", describe(operation.plan->signature()),
                     operation.sequence, rank());
}

std::string Communicator::Implementation::ranks_text(const std::vector<Rank>& ranks) const {
  std::vector<std::string> names;
  for (const auto rank : ranks) names.push_back(member_->name_of(links_.job_rank(rank)));
  return names.empty() ? "nobody" : joined(names);
}

Status Communicator::Implementation::usable_as_owner() {
  take_news_as_owner();
  if (!broken_) return {};
  auto failure = *broken_;
  failure.message = "the communicator is broken since an earlier failure: " + failure.message;
  return tl::unexpected(std::move(failure));
}

void Communicator::Implementation::failed_as_owner(Failure failure) {
  if (failure.kind != ErrorKind::peer_lost) return break_as_owner(failure, true);
  if (suspicion_) return;
  suspicion_ = std::move(failure);
  suspected_ = Clock::now();
}

void Communicator::Implementation::break_as_owner(const Failure& failure, bool tell) {
  if (!broken_) {
    broken_ = failure;
    log().debug("rank {}: a communicator ends: {}", rank(), failure.message);
  }
  links_.revoke();
  for (auto& operation : collectives_) {
    operation->failure = *broken_;
    operation->done.store(true, std::memory_order_release);
  }
  collectives_.clear();
  messages_.end_all(*broken_);
  if (tell) member_->control().flood(id_, failure);
}

bool Communicator::Implementation::take_news_as_owner() {
  if (!has_news_.load(std::memory_order_acquire) || broken_) return false;
  std::optional<Failure> failure;
  {
    std::lock_guard lock(mutex_);
    failure = news_;
  }
  if (failure->kind == ErrorKind::peer_lost) {
    if (!collectives_.empty())
      failure->message = fmt::format("{}: {}", name_of(*collectives_.front()), failure->message);
    else if (messages_.busy())
      failure->message =
          fmt::format("{}: {}", messages_.name_of(*messages_.pending().front()), failure->message);
  }
  break_as_owner(*failure, false);
  return true;
}

Clock::time_point Communicator::Implementation::supervise_as_owner(Clock::time_point now) {
  if (moved_) last_moved_ = now;
  moved_ = false;
  auto next = now + std::chrono::seconds(1);
  if (suspicion_) {
    if (now - suspected_ >= kGrace) {
      break_as_owner(*suspicion_, true);
      return next;
    }
    next = std::min(next, suspected_ + kGrace);
  }
  for (auto& operation : collectives_)
    if (supervise_collective_as_owner(*operation, now, next)) return next;
  supervise_messages_as_owner(now, next);
  return next;
}

bool Communicator::Implementation::supervise_collective_as_owner(CollectiveOperation& operation,
                                                                 Clock::time_point now,
                                                                 Clock::time_point& next) {
  if (now >= operation.deadline) {
    break_as_owner({ErrorKind::timed_out,
                    fmt::format("{} timed out after {:.0f} ms, {}", name_of(operation),
                                milliseconds(now - operation.begun),
                                operation.started
                                    ? fmt::format("{}; it waits for {}", operation.plan->standing(),
                                                  ranks_text(operation.plan->awaited()))
                                    : "not begun: an earlier call is still under way"),
                    std::nullopt},
                   true);
    return true;
  }
  next = std::min(next, operation.deadline);
  if (!operation.started) return false;
  if (now - last_moved_ >= kSettled) {
    const auto silent = operation.plan->awaited(Plan::Which::never_connected);
    const auto gone = std::ranges::find_if(silent, [&](Rank rank) { return has_left(rank); });
    if (gone != silent.end()) {
      break_as_owner(
          {ErrorKind::peer_lost,
           fmt::format("{} waits for {}, which has left", name_of(operation), ranks_text({*gone})),
           links_.job_rank(*gone)},
          true);
      return true;
    }
  } else {
    next = std::min(next, last_moved_ + kSettled);
  }
  if (operation.published) return false;
  if (now - operation.begun >= kPublishAfter) {
    operation.published = true;
    member_->control().publish({id_, operation.sequence, operation.plan->signature()});
  } else {
    next = std::min(next, operation.begun + kPublishAfter);
  }
  return false;
}

void Communicator::Implementation::supervise_messages_as_owner(Clock::time_point now,
                                                               Clock::time_point& next) {
  const bool settled = now - last_moved_ >= kSettled;
  if (messages_.busy() && !settled) next = std::min(next, last_moved_ + kSettled);
  // From the end: one that is given up leaves its place to one that was looked at.
  for (auto left = messages_.pending().size(); left-- > 0;) {
    const auto operation = messages_.pending()[left];
    const auto waits_for = [&] { return ranks_text(messages_.awaited(*operation)); };
    if (now >= operation->deadline) {
      Failure failure{
          ErrorKind::timed_out,
          fmt::format("{} timed out after {:.0f} ms, {}; it waits for {}",
                      messages_.name_of(*operation), milliseconds(now - operation->begun),
                      messages_.standing(*operation), waits_for()),
          std::nullopt};
      if (operation->what != MessageOperation::What::probe) return break_as_owner(failure, true);
      // Nobody else knows of it.
      messages_.give_up(*operation, std::move(failure));
      continue;
    }
    next = std::min(next, operation->deadline);
    if (settled && messages_.in_vain(*operation, [&](Rank rank) { return has_left(rank); }))
      return break_as_owner(
          {ErrorKind::peer_lost,
           fmt::format("{}, {}: it waits for {}, which left", messages_.name_of(*operation),
                       messages_.standing(*operation), waits_for()),
           std::nullopt},
          true);
  }
}

bool Communicator::Implementation::has_left(Rank rank) {
  std::lock_guard lock(mutex_);
  return left_.contains(links_.job_rank(rank));
}

void Communicator::Implementation::failed(const Failure& failure) {
  {
    std::lock_guard lock(mutex_);
    if (news_) return;
    news_ = failure;
  }
  has_news_.store(true, std::memory_order_release);
  waiter_->ring();
}

void Communicator::Implementation::left(std::uint32_t rank) {
  {
    std::lock_guard lock(mutex_);
    left_.insert(rank);
  }
  waiter_->ring();
}

std::optional<Failure> Communicator::Implementation::compare(std::uint32_t peer,
                                                             const Waiting& waiting) {
  std::lock_guard lock(mutex_);
  if (waiting.sequence >= calls_) {
    if (ahead_.size() < kHistory) ahead_.emplace_back(peer, waiting);
    return std::nullopt;
  }
  if (calls_ - waiting.sequence > kHistory) return std::nullopt;
  const auto& mine = history_[waiting.sequence % kHistory];
  if (mine == waiting.signature) return std::nullopt;
  return Failure{
      ErrorKind::mismatch,
      describe_mismatch(rank(), mine, waiting.sequence, peer, waiting.signature, waiting.sequence),
      std::nullopt};
}

Status Communicator::Implementation::record_call(const Signature& signature) {
  std::lock_guard lock(mutex_);
  const auto sequence = calls_++;
  history_[sequence % kHistory] = signature;
  if (ahead_.empty()) return {};
  Status status;
  std::erase_if(ahead_, [&](const auto& entry) {
    const auto& [peer, waiting] = entry;
    if (waiting.sequence != sequence) return false;
    if (status && waiting.signature != signature)
      status = fail(ErrorKind::mismatch, "{}",
                    describe_mismatch(rank(), signature, sequence, peer, waiting.signature,
                                      waiting.sequence));
    return true;
  });
  return status;
}

}  // namespace ccoll
