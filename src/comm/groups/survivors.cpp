// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/survivors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "core/deadline.hpp"
#include "engine/mix.hpp"

namespace ccoll {
namespace {

/// A rank that was awaited for this long may have left unheard (see Control::probe).
constexpr std::chrono::milliseconds kLookAgain{1000};

/// By then the service thread has answered, unless it is held up itself. It takes real time.
constexpr std::chrono::milliseconds kAnswerLimit{2000};

bool is_counted(const Headcount::State& state) { return state.gone.has_value(); }

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
  if (!counted) self_.control().give_up(call, counted.error());
  auto state = count->state.lock();
  // The others may have counted this rank in meanwhile: then it is one of them.
  if (!counted && !state.wait_until(count->changed, Clock::now() + kAnswerLimit, is_counted))
    return tl::unexpected(counted.error());
  const auto& gone = *state->gone;
  if (!gone) return tl::unexpected(gone.error());
  for (const auto job_rank : call.ranks)
    if (!std::ranges::binary_search(*gone, job_rank))
      left.push_back(self_.group().rank_of(job_rank).value());
  return left;
}

Status Survivors::await(const RollCall& call, Headcount& count,
                        std::chrono::milliseconds timeout) const {
  const auto deadline = deadline_after(timeout, progress_.now());
  try {
    auto state = count.state.lock();
    const auto until_next_look = [&] {
      return deadline_after(std::min<Clock::duration>(deadline - progress_.now(), kLookAgain));
    };
    while (!state.wait_until(count.changed, until_next_look(), is_counted)) {
      const auto awaited = state->awaited;
      state.unlock();
      if (progress_.now() >= deadline) return tl::unexpected(lost_patience(call, timeout, awaited));
      self_.control().probe(awaited);
      state.lock();
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
