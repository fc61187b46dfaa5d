// SPDX-License-Identifier: Apache-2.0
// Communicators from communicators. The address table knows every rank of the job and links are
// named by communicator, so no store is needed: ranks make up the same id and begin.
#include "comm/groups/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "comm/call/arguments.hpp"
#include "comm/call/call.hpp"
#include "comm/call/call_group.hpp"
#include "comm/progress/owner.hpp"
#include "core/text.hpp"
#include "engine/describe.hpp"
#include "engine/mix.hpp"

namespace ccoll {
namespace {

/// In a subgroup of up to this many ranks, all hear from each that waits for it. In a larger one
/// only its neighbours in the list do, or n waiting ranks would send n² messages.
constexpr std::size_t kAllHear = 64;

}  // namespace

Result<Child> Groups::make_child(std::uint64_t id, const std::vector<Rank>& ranks,
                                 const GroupOptions& options, std::string made_up_name) {
  auto inherited = with_.self.options();
  inherited.name = options.name;
  if (inherited.name.empty()) inherited.name = std::move(made_up_name);
  if (options.timeout.count() > 0) inherited.timeout = options.timeout;
  std::vector<std::uint32_t> job_ranks;
  job_ranks.reserve(ranks.size());
  for (const auto rank : ranks) job_ranks.push_back(with_.self.group().job_rank(rank));
  return with_.make(id, inherited, Group(std::move(job_ranks), with_.self.job_rank()));
}

template <typename Make>
Result<Child> Groups::made_or_told(std::uint64_t id, Make make_it) {
  auto made = caught(make_it);
  if (made) return made;
  auto& failure = made.error();
  // A failed meeting has told the others; a shortage or a defect here is known to nobody else yet.
  if (failure.kind == ErrorKind::exhausted || failure.kind == ErrorKind::internal)
    failure = {failure.kind,
               fmt::format("rank {} of the job failed to make the communicator: {}",
                           with_.self.job_rank(), failure.message),
               with_.self.job_rank()};
  with_.self.control().flood(id, failure);
  return made;
}

Result<Child> Groups::duplicate(const GroupOptions& options) {
  std::uint64_t number = 0;
  {
    // Hold it no longer: making waits for other ranks, which may wait for calls of this one.
    const Owner owned(with_.progress);
    CCOLL_TRY(with_.failures.usable(owned));
    number = with_.births.next_child(owned);
  }
  const auto id = with_.births.duplicate_id(number);
  return made_or_told(id, [&] {
    std::vector<Rank> ranks(with_.self.size());
    for (Rank rank = 0; rank < with_.self.size(); rank++) ranks[rank] = rank;
    return make_child(id, ranks, options, fmt::format("{}/copy{}", with_.self.name(), number));
  });
}

Result<std::optional<Child>> Groups::split(int color, int key, const GroupOptions& options) {
  if (color < 0 && color != kNoColor)
    return fail(ErrorKind::invalid_argument,
                "split: colour {} is negative; colours are at least 0, or kNoColor", color);
  const std::array<std::int32_t, 2> mine = {color, key};
  std::vector<std::array<std::int32_t, 2>> wishes(with_.self.size());
  CCOLL_TRY(with_.exchange.tell_all(kSplit, mine.data(), wishes.data(), sizeof mine));
  std::uint64_t number = 0;
  {
    const Owner owned(with_.progress);
    number = with_.births.next_child(owned);
  }
  if (color == kNoColor) return std::nullopt;
  const auto id = with_.births.split_id(number, color);
  return made_or_told(id, [&] {
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < with_.self.size(); rank++)
      if (wishes[rank][0] == color) ranks.push_back(rank);
    std::ranges::stable_sort(ranks, {}, [&](Rank rank) { return wishes[rank][1]; });
    return make_child(id, ranks, options,
                      fmt::format("{}/split{}:{}", with_.self.name(), number, color));
  });
}

Result<std::vector<Rank>> Groups::subgroup_ranks(std::span<const int> ranks) const {
  std::vector<Rank> list;
  std::vector<bool> seen(with_.self.size());
  for (const int rank : ranks) {
    if (rank < 0 || static_cast<Rank>(rank) >= with_.self.size())
      return fail(ErrorKind::invalid_argument, "{}",
                  no_such_rank("subgroup: rank", rank, with_.self.size()));
    if (seen[static_cast<Rank>(rank)])
      return fail(ErrorKind::invalid_argument, "subgroup: rank {} is in the list twice", rank);
    seen[static_cast<Rank>(rank)] = true;
    list.push_back(static_cast<Rank>(rank));
  }
  if (list.empty())
    return fail(ErrorKind::invalid_argument, "subgroup: the list is empty; it names its ranks");
  if (!seen[with_.self.rank()])
    return fail(ErrorKind::invalid_argument,
                "subgroup: rank {} calls it but is not in the list of {}; only those in it call",
                with_.self.rank(), list_ranks(list));
  return list;
}

Result<Child> Groups::subgroup(std::span<const int> asked, const GroupOptions& options) {
  CCOLL_TRY(call_group::refuse_in_one(describe({.kind = kSubgroup})));
  auto ranks = subgroup_ranks(asked);
  if (!ranks) return tl::unexpected(ranks.error());
  const auto text = list_ranks(*ranks);
  Announcement announcement{
      {with_.self.id(), 0, {.count = mix_ranks(*ranks), .kind = kSubgroup}, text}, {}};
  bool was_broken = false;
  {
    const Owner owned(with_.progress);
    was_broken = with_.failures.broken(owned).has_value();
  }
  const auto attempt = with_.births.begin_subgroup(*ranks, was_broken);
  if (!attempt) return tl::unexpected(attempt.error());
  // Runs even if telling the others fails, so that the next making finds room.
  struct End {
    Births& births;
    bool counts = true;
    ~End() { births.end_subgroup(counts); }
  } end{with_.births};
  announcement.waiting.sequence = attempt->times;
  std::optional<Child> met;
  auto made = made_or_told(attempt->id, [&]() -> Result<Child> {
    auto child = make_child(attempt->id, *ranks, options,
                            fmt::format("{}/group({})", with_.self.name(), text));
    if (!child) return child;
    with_.births.wait_in({child->communicator, &child->news});
    if (with_.failures.verdict().is_closed()) with_.births.end_making(Failures::destroyed());
    if (const auto broken = with_.failures.news()) with_.births.end_unwarned_making(*broken);
    const auto& group = child->self.group();
    announcement.to = ranks->size() <= kAllHear ? group.job_ranks() : group.ring_neighbours();
    met.emplace(*child);
    CCOLL_TRY(met->groups.meet(std::move(announcement)));
    return child;
  });
  // The failure is about the group's own barrier.
  if (!made && met) {
    const auto culprit = made.error().culprit;
    made.error() = met->self.for_caller(std::move(made.error()));
    made.error().culprit = culprit;  // the caller knows this communicator's numbers
  }
  // After a mismatch with another list, some members may never have counted this attempt: its id
  // stays failed for all of them.
  end.counts = made || made.error().kind != ErrorKind::mismatch;
  return made;
}

Status Groups::meet(Announcement announcement) {
  // Take the news of failed lists first: the barrier may be over before it arrives.
  with_.self.control().settle();
  const Owner owned(with_.progress);
  with_.births.announcement(owned) = std::move(announcement);
  Call barrier;
  barrier.kind = Kind::barrier;
  barrier.shown_as = kSubgroup;
  barrier.count = 1;
  barrier.op = ReduceOp::max;
  const auto met = with_.calls.run(owned, barrier);
  with_.births.announcement(owned).reset();
  CCOLL_TRY(met);
  return {};
}

Result<Child> Groups::shrink(const GroupOptions& options, Ranks excluded) {
  CCOLL_TRY(call_group::refuse_in_one("shrink"));
  const auto call = with_.survivors.begin(excluded);
  if (!call) return tl::unexpected(call.error());
  struct End {
    Births& births;
    const Ranks& excluded;
    bool well = false;
    ~End() { births.end_shrink(excluded, well); }
  } end{with_.births, excluded};
  const auto timeout = options.timeout.count() > 0 ? options.timeout : with_.self.options().timeout;
  auto made = with_.survivors.find(*call, timeout).and_then([&](const std::vector<Rank>& ranks) {
    const auto id = with_.births.shrink_id(call->number, mix_ranks(ranks));
    return made_or_told(id, [&] {
      return make_child(
          id, ranks, options,
          excluded.empty()
              ? fmt::format("{}/shrunk{}", with_.self.name(), call->number + 1)
              : fmt::format("{}/without({})", with_.self.name(), list_ranks(excluded)));
    });
  });
  end.well = made.has_value();
  if (!made) return made;
  // A failure that ends the job without a culprit (another rank gave up a start-up) ends whatever
  // is made of it: return it, or the caller shrinks for ever. (Copy it only if there is one: the
  // others have theirs by now, and would wait for a rank that has no memory for it.)
  if (auto news = made->verdict.heard_without_culprit()) return tl::unexpected(std::move(*news));
  return made;
}

}  // namespace ccoll
