// SPDX-License-Identifier: Apache-2.0
// How a communicator learns that a call cannot succeed, and what it tells its caller and its peers.
#include <algorithm>

#include "comm/background.hpp"
#include "comm/implementation.hpp"
#include "core/text.hpp"
#include "engine/describe.hpp"

namespace ccoll {
namespace {

/// A broken link is only a symptom: so long the control path may still bring the cause.
constexpr std::chrono::milliseconds kGrace{400};

/// A rank that has waited so long publishes what it waits for.
constexpr std::chrono::milliseconds kPublishAfter{50};

/// So many calls are compared when a communicator ends; of those before, a later call told.
constexpr std::uint64_t kLastCalls = 8;

/// Nothing having moved for so long, a connection that a rank made before it left has come. (Where
/// one is there, the end of its stream tells of the peer's leaving, after all that it sent.)
constexpr std::chrono::milliseconds kSettled{1000};

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

std::string Communicator::Implementation::name_of(const Operation& operation) const {
  const auto& signature = operation.plan->signature();
  if (operation.queue.what == QueueKey::What::collective)
    return fmt::format("{} (call {}) on rank {}", describe(signature), operation.sequence, rank());
  return fmt::format("{} {} rank {}: {} (message {}) on rank {}",
                     operation.queue.what == QueueKey::What::send ? "send" : "recv",
                     operation.queue.what == QueueKey::What::send ? "to" : "from",
                     operation.queue.peer, describe(signature), operation.sequence, rank());
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

void Communicator::Implementation::failed_as_owner(const Operation& operation, Failure failure) {
  if (failure.kind == ErrorKind::peer_lost) {
    if (!suspicion_) {
      failure.message = fmt::format("{}, {}: {}", name_of(operation), operation.plan->standing(),
                                    failure.message);
      suspicion_ = std::move(failure);
      suspected_ = Clock::now();
    }
    return;
  }
  if (operation.queue.what == QueueKey::What::collective && failure.kind != ErrorKind::mismatch)
    failure.message = fmt::format("{}: {}", name_of(operation), failure.message);
  break_as_owner(failure, true);
}

void Communicator::Implementation::break_as_owner(const Failure& failure, bool tell) {
  if (!broken_) broken_ = failure;
  links_.revoke();
  for (auto& [key, queue] : queues_) {
    for (auto& operation : queue) {
      operation->failure = *broken_;
      operation->done.store(true, std::memory_order_release);
    }
    queue.clear();
  }
  pending_ = 0;
  if (tell) member_->control().flood(id_, failure);
}

void Communicator::Implementation::threw_as_owner(const Failure& failure) {
  break_as_owner({failure.kind, fmt::format("rank {} failed: {}", rank(), failure.message), rank()},
                 true);
}

bool Communicator::Implementation::take_news_as_owner() {
  if (!has_news_.load(std::memory_order_acquire) || broken_) return false;
  std::optional<Failure> failure;
  {
    std::lock_guard lock(mutex_);
    failure = news_;
  }
  if (failure->kind == ErrorKind::peer_lost) {
    for (const auto& [key, queue] : queues_) {
      if (queue.empty()) continue;
      failure->message = fmt::format("{}: {}", name_of(*queue.front()), failure->message);
      break;
    }
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
  for (auto& [key, queue] : queues_)
    for (auto& operation : queue)
      if (supervise_operation_as_owner(*operation, now, next)) return next;
  return next;
}

bool Communicator::Implementation::supervise_operation_as_owner(Operation& operation,
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
    if (const auto gone = awaits_one_who_left(operation)) {
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
  if (operation.queue.what != QueueKey::What::collective || operation.published) return false;
  if (now - operation.begun >= kPublishAfter) {
    operation.published = true;
    member_->control().publish({id_, operation.sequence, operation.plan->signature()});
  } else {
    next = std::min(next, operation.begun + kPublishAfter);
  }
  return false;
}

std::optional<Rank> Communicator::Implementation::awaits_one_who_left(const Operation& operation) {
  std::lock_guard lock(mutex_);
  if (left_.empty()) return std::nullopt;
  for (const auto rank : operation.plan->awaited(Plan::Which::never_connected))
    if (left_.contains(links_.job_rank(rank))) return rank;
  return std::nullopt;
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

void Communicator::Implementation::publish_last_calls() {
  std::vector<Waiting> last;
  {
    std::lock_guard lock(mutex_);
    for (auto call = calls_ - std::min(calls_, kLastCalls); call < calls_; call++)
      last.push_back({id_, call, history_[call % kHistory]});
  }
  for (const auto& call : last) member_->control().publish(call);
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
