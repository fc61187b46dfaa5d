// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/births.hpp"

#include <algorithm>
#include <utility>

#include "comm/call/arguments.hpp"
#include "core/text.hpp"
#include "engine/mix.hpp"

namespace ccoll {
namespace {

/// The purpose of an id, which keeps ids apart whatever the numbers are.
enum class Birth : std::uint64_t { duplicate = 1, split, subgroup, shrink };

}  // namespace

Result<Ranks> excluded_ranks(std::span<const int> ranks, Rank self, Rank size) {
  Ranks excluded;
  for (const int each : ranks) {
    if (each < 0 || static_cast<Rank>(each) >= size)
      return fail(ErrorKind::invalid_argument, "{}",
                  no_such_rank("shrink: the excluded rank", each, size));
    if (static_cast<Rank>(each) == self)
      return fail(ErrorKind::invalid_argument,
                  "shrink: rank {} would exclude itself; only those that stay call it", each);
    excluded.push_back(static_cast<Rank>(each));
  }
  std::ranges::sort(excluded);
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  return excluded;
}

Births::Births(std::uint64_t parent) : parent_(parent) {
  // This takes the memory of a shrink() now: one out of memory must still say so to the others.
  shared_.with([](Shared& shared) { shared.shrinks[{}]; });
}

std::uint64_t Births::duplicate_id(std::uint64_t number) const {
  return mix(parent_, Birth::duplicate, number);
}

std::uint64_t Births::split_id(std::uint64_t number, int color) const {
  return mix(parent_, Birth::split, number, static_cast<std::uint64_t>(color));
}

std::uint64_t Births::subgroup_id(std::uint64_t list, std::uint64_t times) const {
  return mix(parent_, Birth::subgroup, list, times);
}

std::uint64_t Births::shrink_id(std::uint64_t number, std::uint64_t list) const {
  return mix(parent_, Birth::shrink, number, list);
}

Result<Births::Attempt> Births::begin_subgroup(const Ranks& ranks, bool was_broken) {
  return shared_.with([&](Shared& shared) -> Result<Attempt> {
    if (shared.making)
      return fail(ErrorKind::invalid_argument,
                  "two threads make subgroups of one communicator at once: the one of {} is not "
                  "ready yet, and one of {} was requested",
                  list_ranks(shared.making->ranks), list_ranks(ranks));
    const auto list = mix_ranks(ranks);
    const auto times = shared.made[list];
    const auto id = subgroup_id(list, times);
    shared.making = Making{id, list, ranks, was_broken, {}};
    return Attempt{id, times};
  });
}

void Births::end_subgroup(bool counts) noexcept {
  shared_.with([&](Shared& shared) {
    if (counts) shared.made.find(shared.making->list)->second++;
    shared.making.reset();
  });
}

void Births::wait_in(const std::shared_ptr<ControlObserver>& made) {
  shared_.with([&](Shared& shared) { shared.making->made = made; });
}

void Births::end_making(const Failure& failure) const {
  end(failure, [](const Making&) { return true; });
}

void Births::end_unwarned_making(const Failure& failure) const {
  end(failure, [](const Making& making) { return !making.was_broken; });
}

template <typename Concerns>
void Births::end(const Failure& failure, Concerns concerns) const {
  std::uint64_t id = 0;
  const auto made = shared_.with([&](const Shared& shared) {
    if (!shared.making || !concerns(*shared.making)) return std::shared_ptr<ControlObserver>();
    id = shared.making->id;
    return shared.making->made.lock();
  });
  if (made) made->failed(id, failure);
}

std::optional<std::uint64_t> Births::contradiction(const Shared& shared, Rank peer,
                                                   const Waiting& announced) const {
  const auto& [making, lists, shrinks, is_shrinking, headcount] = shared;
  const auto list = announced.signature.count;
  const auto times = announced.sequence;
  if (!making || list == making->list) return std::nullopt;
  // The word came late: this rank has made that group since, so the peer is not waiting in it.
  const auto made = lists.find(list);
  if (made != lists.end() && made->second > times) return std::nullopt;
  // This rank's list lacks the peer: its group may be made first, and then the peer's.
  if (std::ranges::find(making->ranks, peer) == making->ranks.end()) return std::nullopt;
  return subgroup_id(list, times);
}

Result<Shrinks> Births::begin_shrink(const Ranks& excluded) {
  return shared_.with([&](Shared& shared) -> Result<Shrinks> {
    if (shared.is_shrinking)
      return fail(ErrorKind::invalid_argument, "two threads shrink one communicator at once");
    // A shrink() takes no memory here, because it could not yet report to the others that it has
    // none.
    const auto& before = shared.shrinks[excluded];
    shared.is_shrinking = true;
    return before;
  });
}

void Births::end_shrink(const Ranks& excluded, bool well) noexcept {
  shared_.with([&](Shared& shared) {
    shared.is_shrinking = false;
    shared.headcount.reset();
    auto& now = shared.shrinks.find(excluded)->second;
    now.attempts = well ? 0 : now.attempts + 1;
    if (well) now.well++;
  });
}

void Births::await(std::shared_ptr<Headcount> count) {
  shared_.with([&](Shared& shared) { shared.headcount = std::move(count); });
}

void Births::abort_shrink(const Failure& why) {
  const auto count = shared_.with([](const Shared& shared) { return shared.headcount; });
  if (!count) return;
  const auto state = count->state.lock();
  if (!state->gone) state->gone = tl::unexpected(why);
  count->changed.notify_all();
}

}  // namespace ccoll
