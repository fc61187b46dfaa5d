// SPDX-License-Identifier: Apache-2.0
#include "show/page/trace_page.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "schedule/text.hpp"
#include "show/page/page.hpp"
#include "show/text/trace_text.hpp"

namespace ccoll::show {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostPieces = 400;

/// A step of one rank's program, in one copy of its lanes.
using StepKey = std::tuple<Rank, std::uint16_t, std::uint32_t>;

/// Its results over all windows and copies.
struct Measured {
  std::uint64_t ended = 0;
  std::uint64_t worked = 0;
  std::uint64_t waited = 0;
  std::map<Rank, std::uint64_t> for_rank;
  bool critical = false;
};

StepKey key_of(const TracedCall& call, Rank rank, const trace::StepRun& run) {
  return {rank, static_cast<std::uint16_t>(run.lane / call.planned.choice.lanes), run.step};
}

std::map<StepKey, Measured> measured_steps(const TracedCall& call,
                                           const std::vector<trace::PathPiece>& path) {
  std::map<StepKey, Measured> steps;
  for (Rank rank = 0; rank < call.whole.ranks.size(); ++rank) {
    if (!call.whole.ranks[rank]) continue;
    for (const trace::StepRun& run : call.whole.ranks[rank]->steps) {
      Measured& step = steps[key_of(call, rank, run)];
      step.ended = std::max(step.ended, run.end - call.begin);
      step.worked += run.end - run.moved;
      if (run.awaited == Awaited::nothing) continue;
      step.waited += run.moved - run.begin;
      if (run.awaited != Awaited::step) step.for_rank[run.peer] += run.moved - run.begin;
    }
  }
  for (const trace::PathPiece& piece : path) {
    const auto& run = call.whole.ranks[piece.step.rank]->steps[piece.step.index];
    steps[key_of(call, piece.step.rank, run)].critical = true;
  }
  return steps;
}

/// The round in which a step receives or, if it does not, in which it first sends.
std::map<StepKey, std::size_t> rounds_by_step(const Rounds& rounds) {
  std::map<StepKey, std::size_t> found;
  const auto key = [](const StepName& name) { return StepKey{name.rank, name.lane, name.step}; };
  for (std::size_t i = 0; i < rounds.rounds.size(); ++i) {
    for (const Message& message : rounds.rounds[i].messages) {
      if (message.received) found.try_emplace(key(message.by), i + 1);
    }
  }
  for (std::size_t i = 0; i < rounds.rounds.size(); ++i) {
    for (const Message& message : rounds.rounds[i].messages) {
      found.try_emplace(key(message.from), i + 1);
    }
    for (const StepName& step : rounds.rounds[i].steps) found.try_emplace(key(step), i + 1);
  }
  return found;
}

std::size_t round_of(const std::map<StepKey, std::size_t>& rounds, const StepKey& key) {
  const auto found = rounds.find(key);
  return found == rounds.end() ? 0 : found->second;
}

ordered_json step_json(const TracedCall& call, const Picture& picture, const StepKey& key,
                       const Measured& step) {
  const auto& [rank, lane, number] = key;
  ordered_json json = {
      {"lane", lane},
      {"step", number},
      {"text", to_string(picture.programs[rank].lanes[lane].steps[number], lane)},
      {"ended", span_text(step.ended)},
      {"worked", span_text(step.worked)},
      {"waited", step.waited > 0 ? ordered_json(span_text(step.waited)) : ordered_json()},
      {"for", nullptr},
      {"long", step.waited * 10 >= call.end - call.begin},
      {"critical", step.critical}};
  const auto by_time = [](const auto& each) { return each.second; };
  if (!step.for_rank.empty()) {
    json["for"] = std::ranges::max_element(step.for_rank, {}, by_time)->first;
  }
  return json;
}

ordered_json rounds_json(const TracedCall& call, const Picture& picture,
                         const std::map<StepKey, Measured>& steps,
                         const std::map<StepKey, std::size_t>& rounds) {
  ordered_json json = ordered_json::array();
  const ordered_json nobody(
      std::vector<ordered_json>(call.whole.ranks.size(), ordered_json::array()));
  std::vector<std::uint64_t> ended(picture.rounds.rounds.size() + 1);
  for (std::size_t round = 0; round < ended.size(); ++round) {
    json.push_back({{"round", round}, {"ended", nullptr}, {"ranks", nobody}});
  }
  for (const auto& [key, step] : steps) {
    const std::size_t round = round_of(rounds, key);
    ended[round] = std::max(ended[round], step.ended);
    json[round]["ranks"][std::get<0>(key)].push_back(step_json(call, picture, key, step));
    json[round]["ended"] = span_text(ended[round]);
  }
  return json;
}

ordered_json waits_json(const TracedCall& call) {
  std::vector<trace::Wait> waits;
  for (Rank rank = 0; rank < call.whole.ranks.size(); ++rank) {
    if (!call.whole.ranks[rank]) continue;
    std::ranges::copy(trace::waits_of(rank, *call.whole.ranks[rank]), std::back_inserter(waits));
  }
  std::ranges::stable_sort(waits, std::greater(), &trace::Wait::ns);
  ordered_json json = ordered_json::array();
  for (const trace::Wait& wait : waits) {
    json.push_back(fmt::format("rank {} for rank {}{}: {}", wait.rank, wait.peer,
                               wait.what == Awaited::room ? " to take" : "", span_text(wait.ns)));
  }
  return json;
}

ordered_json path_json(const TracedCall& call, const std::vector<trace::PathPiece>& path,
                       const std::map<StepKey, std::size_t>& rounds) {
  ordered_json json = ordered_json::array();
  for (std::size_t i = 0; i < std::min(path.size(), kMostPieces); ++i) {
    const trace::PathPiece& piece = path[i];
    const Rank rank = piece.step.rank;
    const auto& run = call.whole.ranks[rank]->steps[piece.step.index];
    const Step& step = call.whole.programs[rank].lanes[run.lane].steps[run.step];
    json.push_back({{"at", span_text(piece.begin - call.begin)},
                    {"round", round_of(rounds, key_of(call, rank, run))},
                    {"text", fmt::format("rank {}, window {}: {}; {}", rank, run.window,
                                         to_string(step, run.lane),
                                         cause_text(piece, i > 0 ? path[i - 1].step.rank : 0))},
                    {"travel", span_text(piece.moved - piece.begin)},
                    {"work", span_text(piece.end - piece.moved)}});
  }
  return json;
}

ordered_json ranks_json(const TracedCall& call) {
  ordered_json json = ordered_json::array();
  for (Rank rank = 0; rank < call.whole.ranks.size(); ++rank) {
    const auto& run = call.whole.ranks[rank];
    const auto at = [&](std::uint64_t time) { return span_text(time - call.begin); };
    json.push_back({{"rank", rank},
                    {"began", run ? at(run->begin) : "never"},
                    {"ended", run && run->end ? at(*run->end) : "never"}});
  }
  return json;
}

/// The call for drawing a picture: ragged blocks of unknown sizes are treated as equal.
Result<Call> picture_call(const TracedCall& traced) {
  Call call;
  call.problem = traced.planned.problem;
  call.type = traced.planned.type;
  for (const ReduceOp op : kReduceOps) {
    if (to_string(op) == traced.planned.op) call.op = op;
  }
  call.entry = find_algorithm(call.problem.kind, traced.planned.choice.algorithm);
  const auto operation = operation_named(std::string(to_string(call.problem.kind)));
  CCOLL_TRY(operation);
  call.operation = *operation;
  if (call.problem.size > kMostRanksOnPage) {
    return fail(ErrorKind::invalid_argument, "--page of {} ranks: it shows up to {}",
                call.problem.size, kMostRanksOnPage);
  }
  if (auto whole = trace::whole_problem(traced.planned, traced.whole))
    call.problem = std::move(*whole);
  call.problem.count = std::clamp<std::uint64_t>(call.problem.count, 1, kMostElements);
  return call;
}

ordered_json measured_json(const TracedGroup& group, const TracedCall& call,
                           const Picture& picture) {
  const auto path = trace::critical_path(call.whole, trace::passings_of(call.whole));
  const auto rounds = rounds_by_step(picture.rounds);
  ordered_json notes = ordered_json::array();
  if (call.planned.ragged && picture.call.problem.block_counts.empty())
    notes.push_back(
        "Not all blocks' sizes are recorded: the pictures show the operation with equal blocks.");
  if (call.missing > 0) notes.push_back(fmt::format("{} ranks have no record.", call.missing));
  return {{"heading", fmt::format("Call {} of communicator {}: {}; it took {}", call.sequence,
                                  group.name, heading_of(call), span_text(call.end - call.begin))},
          {"ranks", ranks_json(call)},
          {"rounds", rounds_json(call, picture, measured_steps(call, path), rounds)},
          {"waits", waits_json(call)},
          {"path", path_json(call, path, rounds)},
          {"left_out", path.size() - std::min(path.size(), kMostPieces)},
          {"notes", notes}};
}

}  // namespace

Result<std::string> write_trace_page(const std::string& path, const TracedGroup& group,
                                     const TracedCall& call) {
  const auto shown = picture_call(call);
  CCOLL_TRY(shown);
  const Picture picture = picture_of(*shown);
  ordered_json runs = ordered_json::array();
  runs.push_back(run_of(picture));
  return write_page(path, fmt::format("{}, traced", call_text(*shown)),
                    {{"runs", std::move(runs)}, {"measured", measured_json(group, call, picture)}});
}

}  // namespace ccoll::show
