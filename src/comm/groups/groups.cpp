// SPDX-License-Identifier: Apache-2.0
// Communicators from communicators. The address table knows every rank of the job and links are
// named by communicator, so no store is needed: ranks make up the same id and begin.
#include <algorithm>
#include <array>

#include "comm/api/arguments.hpp"
#include "comm/api/call_group.hpp"
#include "comm/api/implementation.hpp"
#include "comm/groups/exchange.hpp"
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

Groups::Made Groups::make_child(std::uint64_t id, const std::vector<Rank>& ranks,
                                const GroupOptions& options, std::string made_up_name) {
  auto inherited = communicator_.self().options();
  inherited.name = options.name;
  if (inherited.name.empty()) inherited.name = std::move(made_up_name);
  if (options.timeout.count() > 0) inherited.timeout = options.timeout;
  std::vector<std::uint32_t> job_ranks;
  job_ranks.reserve(ranks.size());
  for (const auto rank : ranks) job_ranks.push_back(communicator_.self().group().job_rank(rank));
  return Implementation::make(communicator_.self().member(), id, inherited,
                              Group(std::move(job_ranks), communicator_.self().job_rank()));
}

template <typename Make>
Groups::Made Groups::made_or_told(std::uint64_t id, Make make_it) {
  auto made = caught(make_it);
  if (made) return made;
  auto& failure = made.error();
  // A failed meeting has told the others; a shortage or a defect here is known to nobody else yet.
  if (failure.kind == ErrorKind::exhausted || failure.kind == ErrorKind::internal)
    failure = {failure.kind,
               fmt::format("rank {} of the job failed to make the communicator: {}",
                           communicator_.self().job_rank(), failure.message),
               communicator_.self().job_rank()};
  communicator_.self().control().flood(id, failure);
  return made;
}

Groups::Made Groups::duplicate(const GroupOptions& options) {
  std::uint64_t number = 0;
  {
    // Hold it no longer: making waits for other ranks, which may wait for calls of this one.
    const Owner owned(communicator_.progress());
    CCOLL_TRY(communicator_.failures().usable(owned));
    number = births_.next_child();
  }
  const auto id = births_.duplicate_id(number);
  return made_or_told(id, [&] {
    std::vector<Rank> ranks(communicator_.self().size());
    for (Rank rank = 0; rank < communicator_.self().size(); rank++) ranks[rank] = rank;
    return make_child(id, ranks, options,
                      fmt::format("{}/copy{}", communicator_.self().name(), number));
  });
}

Groups::Made Groups::split(int color, int key, const GroupOptions& options) {
  if (color < 0 && color != kNoColor)
    return fail(ErrorKind::invalid_argument,
                "split: colour {} is negative; colours are at least 0, or kNoColor", color);
  const std::array<std::int32_t, 2> mine = {color, key};
  std::vector<std::array<std::int32_t, 2>> wishes(communicator_.self().size());
  CCOLL_TRY(exchange(communicator_, kSplit, mine.data(), wishes.data(), sizeof mine));
  std::uint64_t number = 0;
  {
    const Owner owned(communicator_.progress());
    number = births_.next_child();
  }
  if (color == kNoColor) return nullptr;
  const auto id = births_.split_id(number, color);
  return made_or_told(id, [&] {
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < communicator_.self().size(); rank++)
      if (wishes[rank][0] == color) ranks.push_back(rank);
    std::ranges::stable_sort(ranks, {}, [&](Rank rank) { return wishes[rank][1]; });
    return make_child(id, ranks, options,
                      fmt::format("{}/split{}:{}", communicator_.self().name(), number, color));
  });
}

Result<std::vector<Rank>> Groups::subgroup_ranks(std::span<const int> ranks) const {
  std::vector<Rank> list;
  std::vector<bool> seen(communicator_.self().size());
  for (const int rank : ranks) {
    if (rank < 0 || static_cast<Rank>(rank) >= communicator_.self().size())
      return fail(ErrorKind::invalid_argument, "{}",
                  no_such_rank("subgroup: rank", rank, communicator_.self().size()));
    if (seen[static_cast<Rank>(rank)])
      return fail(ErrorKind::invalid_argument, "subgroup: rank {} is in the list twice", rank);
    seen[static_cast<Rank>(rank)] = true;
    list.push_back(static_cast<Rank>(rank));
  }
  if (list.empty())
    return fail(ErrorKind::invalid_argument, "subgroup: the list is empty; it names its ranks");
  if (!seen[communicator_.self().rank()])
    return fail(ErrorKind::invalid_argument,
                "subgroup: rank {} calls it but is not in the list of {}; only those in it call",
                communicator_.self().rank(), list_ranks(list));
  return list;
}

Groups::Made Groups::subgroup(std::span<const int> asked, const GroupOptions& options) {
  CCOLL_TRY(call_group::refuse_in_one(describe({.kind = kSubgroup})));
  auto ranks = subgroup_ranks(asked);
  if (!ranks) return tl::unexpected(ranks.error());
  const auto text = list_ranks(*ranks);
  Announcement announcement{
      {communicator_.self().id(), 0, {.count = mix_ranks(*ranks), .kind = kSubgroup}, text}, {}};
  bool was_broken = false;
  {
    const Owner owned(communicator_.progress());
    was_broken = communicator_.failures().broken(owned).has_value();
  }
  const auto attempt = births_.begin_subgroup(*ranks, was_broken);
  if (!attempt) return tl::unexpected(attempt.error());
  // Runs even if telling the others fails, so that the next making finds room.
  struct End {
    Births& births;
    bool counts = true;
    ~End() { births.end_subgroup(counts); }
  } end{births_};
  announcement.waiting.sequence = attempt->times;
  std::shared_ptr<Implementation> met;
  auto made = made_or_told(attempt->id, [&]() -> Made {
    auto child = make_child(attempt->id, *ranks, options,
                            fmt::format("{}/group({})", communicator_.self().name(), text));
    if (!child) return child;
    births_.wait_in({*child, &(*child)->control_news()});
    if (communicator_.is_closed()) births_.end_making(Failures::destroyed());
    if (const auto broken = communicator_.failures().news()) births_.end_unwarned_making(*broken);
    announcement.to = ranks->size() <= kAllHear ? (*child)->self().group().job_ranks()
                                                : (*child)->self().group().ring_neighbours();
    met = *child;
    CCOLL_TRY(met->groups().meet(std::move(announcement)));
    return child;
  });
  // The failure is about the group's own barrier.
  if (!made && met) {
    const auto culprit = made.error().culprit;
    made.error() = met->self().for_caller(std::move(made.error()));
    made.error().culprit = culprit;  // the caller knows this communicator's numbers
  }
  // After a mismatch with another list, some members may never have counted this attempt: its id
  // stays failed for all of them.
  end.counts = made || made.error().kind != ErrorKind::mismatch;
  return made;
}

Status Groups::meet(Announcement announcement) {
  // Take the news of failed lists first: the barrier may be over before it arrives.
  communicator_.self().control().settle();
  const Owner owned(communicator_.progress());
  births_.announcement() = std::move(announcement);
  Call barrier;
  barrier.kind = Kind::barrier;
  barrier.shown_as = kSubgroup;
  barrier.count = 1;
  barrier.op = ReduceOp::max;
  auto met = communicator_.calls().run(owned, barrier);
  births_.announcement().reset();
  return met;
}

Groups::Made Groups::shrink(const GroupOptions& options, Ranks excluded) {
  CCOLL_TRY(call_group::refuse_in_one("shrink"));
  const auto call = survivors_.begin(excluded);
  if (!call) return tl::unexpected(call.error());
  struct End {
    Births& births;
    const Ranks& excluded;
    bool well = false;
    ~End() { births.end_shrink(excluded, well); }
  } end{births_, excluded};
  const auto timeout =
      options.timeout.count() > 0 ? options.timeout : communicator_.self().options().timeout;
  auto made = survivors_.find(*call, timeout).and_then([&](const std::vector<Rank>& ranks) {
    const auto id = births_.shrink_id(call->number, mix_ranks(ranks));
    return made_or_told(id, [&] {
      return make_child(
          id, ranks, options,
          excluded.empty()
              ? fmt::format("{}/shrunk{}", communicator_.self().name(), call->number + 1)
              : fmt::format("{}/without({})", communicator_.self().name(), list_ranks(excluded)));
    });
  });
  end.well = made.has_value();
  if (!made) return made;
  // A failure that ends the job without a culprit (another rank gave up a start-up) ends whatever
  // is made of it: return it, or the caller shrinks for ever. (Copy it only if there is one: the
  // others have theirs by now, and would wait for a rank that has no memory for it.)
  if (auto news = (*made)->failures().verdict().heard_without_culprit())
    return tl::unexpected(std::move(*news));
  return made;
}

std::optional<int> Communicator::rank_in(const Communicator& other, int rank) const {
  const auto& mine = *implementation();
  const auto& theirs = *other.implementation();
  if (mine.self().job() != theirs.self().job())
    raise(
        mine.self().for_caller({ErrorKind::invalid_argument,
                                fmt::format("rank_in: {} was not made from the same start-up as {}",
                                            theirs.self().name(), mine.self().name()),
                                std::nullopt}));
  const auto found = theirs.self().group().rank_of(static_cast<std::uint32_t>(job_rank(rank)));
  return found ? std::optional(static_cast<int>(*found)) : std::nullopt;
}

int Communicator::job_rank(int rank) const {
  if (rank < 0 || rank >= size())
    raise(implementation()->self().for_caller(
        {ErrorKind::invalid_argument, no_such_rank("rank", rank, implementation()->self().size()),
         std::nullopt}));
  return static_cast<int>(implementation()->self().group().job_rank(static_cast<Rank>(rank)));
}

const std::string& Communicator::name() const { return implementation()->self().name(); }

Communicator Communicator::duplicate(const GroupOptions& options) {
  const auto communicator = implementation();  // another thread may close it meanwhile
  communicator->self().value_or_raise(check_timeout("duplicate", options.timeout));
  return Communicator(communicator->self().value_or_raise(
      caught([&] { return communicator->groups().duplicate(options); })));
}

std::optional<Communicator> Communicator::split(int color, int key, const GroupOptions& options) {
  const auto communicator = implementation();
  communicator->self().value_or_raise(check_timeout("split", options.timeout));
  auto made = communicator->self().value_or_raise(
      caught([&] { return communicator->groups().split(color, key, options); }));
  if (made == nullptr) return std::nullopt;
  return Communicator(std::move(made));
}

Communicator Communicator::subgroup(std::span<const int> ranks, const GroupOptions& options) {
  const auto communicator = implementation();
  communicator->self().value_or_raise(check_timeout("subgroup", options.timeout));
  return Communicator(communicator->self().value_or_raise(
      caught([&] { return communicator->groups().subgroup(ranks, options); })));
}

Communicator Communicator::shrink(const GroupOptions& options) {
  const auto communicator = implementation();
  communicator->self().value_or_raise(check_timeout("shrink", options.timeout));
  return Communicator(communicator->self().value_or_raise(
      caught([&] { return communicator->groups().shrink(options); })));
}

Communicator Communicator::shrink_without(std::span<const int> excluded,
                                          const GroupOptions& options) {
  const auto communicator = implementation();
  communicator->self().value_or_raise(check_timeout("shrink_without", options.timeout));
  auto ranks = communicator->self().value_or_raise(
      excluded_ranks(excluded, communicator->self().rank(), communicator->self().size()));
  return Communicator(communicator->self().value_or_raise(
      caught([&] { return communicator->groups().shrink(options, std::move(ranks)); })));
}

}  // namespace ccoll
