// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/survivors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>

#include "core/deadline.hpp"
#include "engine/mix.hpp"

namespace ccoll {
namespace {

/// A rank that was awaited for this long may have left unheard (see Control::probe).
constexpr std::chrono::milliseconds kLookAgain{1000};

/// By then the service thread has answered, unless it is held up itself.
constexpr std::chrono::milliseconds kAnswerLimit{2000};

}  // namespace

Result<RollCall> Survivors::begin(const Ranks& excluded) {
  // A broken communicator may be shrunk; a forked child's copy may not.
  if (progress_.is_forked()) return tl::unexpected(failures_.news().value());
  RollCall call{self_.id(), 0, 0, {}};
  for (Rank each = 0; each < self_.size() && !excluded.empty(); each++)
    if (!std::ranges::binary_search(excluded, each))
      call.ranks.push_back(self_.group().job_rank(each));
  const auto before = births_.begin_shrink(excluded);
  if (!before) return tl::unexpected(before.error());
  call.number =
      excluded.empty() ? before->well : roll_call_without(mix_ranks(excluded), before->well);
  call.attempt = before->attempts;
  return call;
}

Failure Survivors::cannot_shrink() const {
  auto failure = failure_of(std::current_exception());
  failure.message.insert(0, "shrink: ");
  return self_.failed_here(failure);
}

Result<std::vector<Rank>> Survivors::find(const RollCall& call, std::chrono::milliseconds timeout) {
  try {
    return call_roll(call, timeout);
  } catch (...) {
    auto failure = cannot_shrink();
    self_.control().give_up(call, failure);
    return tl::unexpected(std::move(failure));
  }
}

Result<std::vector<Rank>> Survivors::call_roll(const RollCall& asked,
                                               std::chrono::milliseconds timeout) {
  // Allocate before the roll call: once that has ended, the others count on this rank.
  auto call = asked;
  if (call.ranks.empty()) call.ranks = self_.group().job_ranks();
  std::vector<Rank> left;
  left.reserve(self_.size());
  const auto count = std::make_shared<Headcount>();
  births_.await(count);
  if (failures_.verdict().is_closed()) births_.abort_shrink(Failures::destroyed());
  self_.control().call_roll(call, count);
  const auto counted = await(call, *count, timeout);
  std::unique_lock lock(count->mutex);
  if (!counted) {
    lock.unlock();
    self_.control().give_up(call, counted.error());
    lock.lock();
    // The others may have counted this rank in meanwhile: then it is one of them.
    if (!count->changed.wait_for(lock, kAnswerLimit, [&] { return count->gone.has_value(); }))
      return tl::unexpected(counted.error());
  }
  if (!*count->gone) return tl::unexpected(count->gone->error());
  for (const auto job_rank : call.ranks)
    if (!std::ranges::binary_search(**count->gone, job_rank))
      left.push_back(self_.group().rank_of(job_rank).value());
  return left;
}

Status Survivors::await(const RollCall& call, Headcount& count,
                        std::chrono::milliseconds timeout) const {
  const auto deadline = deadline_after(timeout, Clock::now());
  try {
    std::unique_lock lock(count.mutex);
    while (!count.changed.wait_until(lock, std::min(deadline, Clock::now() + kLookAgain),
                                     [&] { return count.gone.has_value(); })) {
      const auto awaited = count.awaited;
      lock.unlock();
      if (Clock::now() >= deadline) return tl::unexpected(lost_patience(call, timeout, awaited));
      self_.control().probe(awaited);
      lock.lock();
    }
    return {};
  } catch (...) {
    return tl::unexpected(cannot_shrink());
  }
}

Failure Survivors::lost_patience(const RollCall& call, std::chrono::milliseconds timeout,
                                 const std::vector<std::uint32_t>& awaited) const {
  std::vector<Rank> ranks;
  ranks.reserve(awaited.size());
  for (const auto job_rank : awaited) ranks.push_back(self_.group().rank_of(job_rank).value());
  Failure failure{
      ErrorKind::timed_out,
      fmt::format("shrink (attempt {}) timed out after {} ms on rank {}: it waits for "
                  "{}, which did not call it or cannot be reached",
                  call.attempt + 1, timeout.count(), self_.rank(), self_.ranks_text(ranks)),
      std::nullopt};
  if (!awaited.empty()) failure.culprit = awaited.front();
  return failure;
}

}  // namespace ccoll
