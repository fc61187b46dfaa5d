// SPDX-License-Identifier: Apache-2.0
#include "trace/analysis.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace ccoll::trace {
namespace {

using Cause = PathPiece::Cause;

/// A link: from, lane, to.
using LinkName = std::tuple<Rank, std::uint16_t, Rank>;
struct LinkUse {
  std::vector<StepPlace> pushes;
  std::vector<StepPlace> pops;
};

const Step& step_of(const WholeCall& call, Rank rank, const StepRun& run) {
  return call.programs[rank].lanes[run.lane].steps[run.step];
}

std::map<LinkName, LinkUse> links_of(const WholeCall& call) {
  std::map<LinkName, LinkUse> links;
  for (Rank rank = 0; rank < call.ranks.size(); rank++) {
    if (!call.ranks[rank]) continue;
    const auto& steps = call.ranks[rank]->steps;
    for (std::size_t i = 0; i < steps.size(); i++) {
      const auto& step = step_of(call, rank, steps[i]);
      for (const auto to : step.sends) links[{rank, steps[i].lane, to}].pushes.push_back({rank, i});
      for (const auto& receive : step.receives)
        links[{receive.peer, receive.lane, rank}].pops.push_back({rank, i});
    }
  }
  return links;
}

/// The length of the union of intervals.
std::uint64_t length_of(std::vector<std::pair<std::uint64_t, std::uint64_t>> intervals) {
  std::ranges::sort(intervals);
  std::uint64_t length = 0, covered = 0;
  for (const auto& [begin, end] : intervals) {
    const auto from = std::max(begin, covered);
    if (end > from) length += end - from;
    covered = std::max(covered, end);
  }
  return length;
}

/// The reason why a step proceeded no earlier.
struct Origin {
  Cause cause = Cause::began;
  StepPlace step;
  std::uint64_t end = 0;
};

class PathFinder {
 public:
  PathFinder(const WholeCall& call, const Passings& passings) : call_(call), passings_(passings) {}

  std::vector<PathPiece> find() {
    auto at = last();
    std::vector<PathPiece> path;
    if (!at) return path;
    auto end = run_of(*at).end;
    std::set<StepPlace> seen;
    // Contradictory records may form a cycle.
    while (seen.insert(*at).second) {
      const auto& run = run_of(*at);
      const auto moved = std::min(run.moved, end);
      const auto origin = origin_of(*at);
      const auto begin = std::min(origin.end, moved);
      path.push_back({*at, origin.cause, begin, moved, end});
      if (origin.cause == Cause::began) break;
      at = origin.step;
      end = begin;
    }
    std::ranges::reverse(path);
    return path;
  }

 private:
  const StepRun& run_of(StepPlace place) const {
    return call_.ranks[place.rank]->steps[place.index];
  }

  std::optional<StepPlace> last() const {
    std::optional<StepPlace> last;
    for (Rank rank = 0; rank < call_.ranks.size(); rank++) {
      const auto& run = call_.ranks[rank];
      if (!run || run->steps.empty()) continue;
      const StepPlace place{rank, run->steps.size() - 1};
      if (!last || run_of(place).end > run_of(*last).end) last = place;
    }
    return last;
  }

  /// The later of the event it waited for and its rank's previous step.
  Origin origin_of(StepPlace place) const {
    const auto& run = run_of(place);
    Origin origin{Cause::began, place, call_.ranks[place.rank]->begin};
    if (place.index > 0) {
      const StepPlace before{place.rank, place.index - 1};
      origin = {Cause::turn, before, run_of(before).end};
    }
    const auto awaited = awaited_by(place, run);
    // A sender's clock may be read after its slice has been seen.
    if (awaited && std::min(awaited->end, run.moved) >= std::min(origin.end, run.moved))
      return *awaited;
    return origin;
  }

  std::optional<Origin> awaited_by(StepPlace place, const StepRun& run) const {
    switch (run.awaited) {
      case Awaited::message:
        return sender_to(place, run.peer);
      case Awaited::room:
        return taker_from(place, run);
      case Awaited::step:
        return step_before(place, run);
      case Awaited::nothing:
        break;
    }
    return std::nullopt;
  }

  std::optional<Origin> sender_to(StepPlace place, Rank peer) const {
    const auto found = std::ranges::equal_range(passings_.all, place, {}, &Passed::to);
    for (const auto& passed : found)
      if (passed.from.rank == peer)
        return Origin{Cause::message, passed.from, run_of(passed.from).end};
    return std::nullopt;
  }

  /// The peer's last step before it that received from this lane.
  std::optional<Origin> taker_from(StepPlace place, const StepRun& run) const {
    const auto& peer = call_.ranks[run.peer];
    if (!peer) return std::nullopt;
    const auto later = std::ranges::upper_bound(peer->steps, run.moved, {}, &StepRun::end);
    const Receive from{place.rank, run.lane};
    for (auto i = static_cast<std::size_t>(later - peer->steps.begin()); i-- > 0;) {
      const auto& receives = step_of(call_, run.peer, peer->steps[i]).receives;
      if (std::ranges::find(receives, from) != receives.end())
        return Origin{Cause::room, {run.peer, i}, peer->steps[i].end};
    }
    return std::nullopt;
  }

  std::optional<Origin> step_before(StepPlace place, const StepRun& run) const {
    const auto& after = step_of(call_, place.rank, run).after;
    const auto& steps = call_.ranks[place.rank]->steps;
    for (std::size_t i = place.index; after && i-- > 0;)
      if (steps[i].lane == after->lane && steps[i].step == after->step &&
          steps[i].window == run.window)
        return Origin{Cause::step, {place.rank, i}, steps[i].end};
    return std::nullopt;
  }

  const WholeCall& call_;
  const Passings& passings_;
};

using Counts = std::vector<std::uint64_t>;

/// The counts that a rank has recorded; empty: none.
Counts counts_of(const WholeCall& call, Rank rank) {
  Counts counts;
  if (!call.ranks[rank]) return counts;
  for (const auto& some : call.ranks[rank]->blocks) {
    counts.resize(call.ranks.size());
    for (std::size_t i = 0; i < some.counts.size() && some.first + i < counts.size(); i++)
      counts[some.first + i] = some.counts[i];
  }
  return counts;
}

/// The counts from each rank to each.
std::optional<Counts> matrix_of(const WholeCall& call) {
  Counts matrix;
  for (Rank rank = 0; rank < call.ranks.size(); rank++) {
    const auto row = counts_of(call, rank);
    if (row.empty()) return std::nullopt;
    matrix.insert(matrix.end(), row.begin(), row.end());
  }
  return matrix;
}

/// The counts that all ranks know, or that the root and each rank for its own block know.
std::optional<Counts> row_of(const Planned& planned, const WholeCall& call) {
  const bool is_private = sizes_are_private(planned.problem.kind);
  Counts row;
  for (Rank rank = 0; rank < call.ranks.size(); rank++) {
    auto counts = counts_of(call, rank);
    if (!counts.empty() && (!is_private || rank == planned.problem.root)) return counts;
    if (!counts.empty()) row.push_back(counts[rank]);
  }
  if (!is_private || row.size() < call.ranks.size()) return std::nullopt;
  return row;
}

}  // namespace

std::optional<Problem> whole_problem(const Planned& planned, const WholeCall& call) {
  auto problem = planned.problem;
  if (!planned.ragged) return problem;
  const bool by_pairs = problem.kind == Kind::all_to_all;
  auto counts = by_pairs ? matrix_of(call) : row_of(planned, call);
  if (!counts) return std::nullopt;
  problem.block_counts = std::move(*counts);
  return problem;
}

Status check(const WholeCall& call) {
  for (Rank rank = 0; rank < call.ranks.size(); rank++) {
    if (!call.ranks[rank]) continue;
    const auto& lanes = call.programs[rank].lanes;
    for (const auto& run : call.ranks[rank]->steps)
      if (run.lane >= lanes.size() || run.step >= lanes[run.lane].steps.size())
        return fail(ErrorKind::corrupt,
                    "rank {}'s record of call {} has step {} of lane {}, which its program has "
                    "not; was it written by another version of ccoll?",
                    rank, call.ranks[rank]->sequence, run.step, run.lane);
  }
  return {};
}

Passings passings_of(const WholeCall& call) {
  Passings passings;
  for (const auto& [name, use] : links_of(call)) {
    const auto both = std::min(use.pushes.size(), use.pops.size());
    for (std::size_t i = 0; i < both; i++) passings.all.push_back({use.pushes[i], use.pops[i]});
    passings.unmatched += std::max(use.pushes.size(), use.pops.size()) - both;
  }
  std::ranges::sort(passings.all, {},
                    [](const Passed& passed) { return std::pair(passed.to, passed.from); });
  return passings;
}

std::vector<Wait> waits_of(Rank rank, const CallRun& run) {
  std::map<std::pair<Rank, Awaited>, std::vector<std::pair<std::uint64_t, std::uint64_t>>> times;
  for (const auto& step : run.steps)
    if (step.awaited == Awaited::message || step.awaited == Awaited::room)
      times[{step.peer, step.awaited}].emplace_back(step.begin, step.moved);
  std::vector<Wait> waits;
  for (auto& [what, intervals] : times)
    waits.push_back({rank, what.first, what.second, length_of(std::move(intervals))});
  std::ranges::stable_sort(waits, std::greater(), &Wait::ns);
  return waits;
}

std::vector<PathPiece> critical_path(const WholeCall& call, const Passings& passings) {
  return PathFinder(call, passings).find();
}

}  // namespace ccoll::trace
