// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator find out which of them are left: comm's side of a roll call
// (control/roll_call.hpp). groups.cpp makes the communicator of those.
#include <algorithm>

#include "comm/api/implementation.hpp"
#include "core/deadline.hpp"
#include "engine/mix.hpp"

namespace ccoll {
namespace {

/// A rank that was awaited for this long may have left unheard (control/liveness_probe.cpp).
constexpr std::chrono::milliseconds kLookAgain{1000};

/// By then the service thread has answered, unless it is held up itself.
constexpr std::chrono::milliseconds kAnswerLimit{2000};

}  // namespace

Result<Ranks> excluded_ranks(std::span<const int> ranks, Rank self, Rank size) {
  Ranks excluded;
  for (const int each : ranks) {
    if (each < 0 || static_cast<Rank>(each) >= size)
      return fail(ErrorKind::invalid_argument,
                  "shrink_without: rank {} to be excluded is not one of {} ranks", each, size);
    if (static_cast<Rank>(each) == self)
      return fail(ErrorKind::invalid_argument,
                  "shrink_without: rank {} would exclude itself; only those that stay call it",
                  each);
    excluded.push_back(static_cast<Rank>(each));
  }
  std::ranges::sort(excluded);
  const auto twice = std::ranges::unique(excluded);
  excluded.erase(twice.begin(), twice.end());
  return excluded;
}

Result<RollCall> Communicator::Implementation::begin_shrinking(const Ranks& excluded) {
  // A broken communicator may be shrunk; a forked child's copy may not.
  if (forked_.load(std::memory_order_relaxed)) return tl::unexpected(news().value());
  std::lock_guard lock(mutex_);
  if (is_shrinking_)
    return fail(ErrorKind::invalid_argument, "two threads shrink one communicator at once");
  // A shrink() takes no memory here, because it could not yet tell the others that it has none.
  const auto& before = shrinks_[excluded];
  RollCall call{id_, before.well, before.attempts, {}};
  if (!excluded.empty()) {
    call.number = roll_call_without(mix_ranks(excluded), before.well);
    for (Rank each = 0; each < size(); each++)
      if (!std::ranges::binary_search(excluded, each)) call.ranks.push_back(group_.job_rank(each));
  }
  is_shrinking_ = true;
  return call;
}

void Communicator::Implementation::end_shrinking(const Ranks& excluded, bool well) noexcept {
  std::lock_guard lock(mutex_);
  is_shrinking_ = false;
  headcount_.reset();
  auto& now = shrinks_.find(excluded)->second;
  now.attempts = well ? 0 : now.attempts + 1;
  if (well) now.well++;
}

void Communicator::Implementation::abort_shrinking() {
  std::unique_lock lock(mutex_);
  const auto count = headcount_;
  lock.unlock();
  if (!count) return;
  const std::lock_guard counting(count->mutex);
  if (!count->gone) count->gone = fail(ErrorKind::aborted, "the communicator was destroyed");
  count->changed.notify_all();
}

Failure Communicator::Implementation::cannot_shrink() const {
  auto failure = failure_of(std::current_exception());
  failure.message.insert(0, "shrink: ");
  return failed_here(failure);
}

Result<std::vector<Rank>> Communicator::Implementation::survivors_or_told(
    const RollCall& call, std::chrono::milliseconds timeout) {
  try {
    return survivors(call, timeout);
  } catch (...) {
    auto failure = cannot_shrink();
    member_->control().give_up(call, failure);
    return tl::unexpected(std::move(failure));
  }
}

Result<std::vector<Rank>> Communicator::Implementation::survivors(
    const RollCall& asked, std::chrono::milliseconds timeout) {
  // Allocate before the roll call: once that has ended, the others count on this rank.
  auto call = asked;
  if (call.ranks.empty()) call.ranks = group_.job_ranks();
  std::vector<Rank> left;
  left.reserve(size());
  const auto count = std::make_shared<Headcount>();
  {
    std::lock_guard lock(mutex_);
    headcount_ = count;
  }
  if (closed_) abort_shrinking();
  member_->control().call_roll(call, count);
  const auto counted = await(call, *count, timeout);
  std::unique_lock lock(count->mutex);
  if (!counted) {
    lock.unlock();
    member_->control().give_up(call, counted.error());
    lock.lock();
    // The others may have counted this rank in meanwhile: then it is one of them.
    if (!count->changed.wait_for(lock, kAnswerLimit, [&] { return count->gone.has_value(); }))
      return tl::unexpected(counted.error());
  }
  if (!*count->gone) return tl::unexpected(count->gone->error());
  for (const auto job_rank : call.ranks)
    if (!std::ranges::binary_search(**count->gone, job_rank))
      left.push_back(group_.rank_of(job_rank).value());
  return left;
}

Status Communicator::Implementation::await(const RollCall& call, Headcount& count,
                                           std::chrono::milliseconds timeout) const {
  const auto deadline = deadline_after(timeout, Clock::now());
  try {
    std::unique_lock lock(count.mutex);
    while (!count.changed.wait_until(lock, std::min(deadline, Clock::now() + kLookAgain),
                                     [&] { return count.gone.has_value(); })) {
      const auto awaited = count.awaited;
      lock.unlock();
      if (Clock::now() >= deadline) return tl::unexpected(lost_patience(call, timeout, awaited));
      member_->control().probe(awaited);
      lock.lock();
    }
    return {};
  } catch (...) {
    return tl::unexpected(cannot_shrink());
  }
}

Failure Communicator::Implementation::lost_patience(
    const RollCall& call, std::chrono::milliseconds timeout,
    const std::vector<std::uint32_t>& awaited) const {
  std::vector<Rank> ranks;
  for (const auto job_rank : awaited) ranks.push_back(group_.rank_of(job_rank).value());
  Failure failure{ErrorKind::timed_out,
                  fmt::format("shrink (attempt {}) timed out after {} ms on rank {}: it waits for "
                              "{}, which did not call it or cannot be reached",
                              call.attempt + 1, timeout.count(), rank(), ranks_text(ranks)),
                  std::nullopt};
  if (!awaited.empty()) failure.culprit = awaited.front();
  return failure;
}

}  // namespace ccoll
