// SPDX-License-Identifier: Apache-2.0
#include "show/execute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "core/text.hpp"
#include "engine/plan.hpp"
#include "transport/transport_set.hpp"

namespace ccoll::show {

namespace {

constexpr std::uint64_t kMostExecuted = 1 << 16;
/// Of a message, far below what a link's slot holds.
constexpr std::uint64_t kMessageBytes = 16 << 10;
/// All ranks are one thread: where none has moved for so long, none will.
constexpr int kMostIdleTurns = 10'000;
constexpr std::size_t kMostTold = 16;

/// Elements of the caller's buffer that hold block `block`, and all of them.
struct Extent {
  std::uint64_t first = 0;
  std::uint64_t elems = 0;
};

Extent extent_of(const Rounds& rounds, Buffer buffer, std::uint32_t block) {
  const bool alone = holds_own_block_only(rounds.problem.kind, buffer);
  return {alone ? 0 : block_offset(rounds.problem, rounds.blocks, block),
          block_elems(rounds.problem, rounds.blocks, block)};
}

std::uint64_t elements_of(const Rounds& rounds, Buffer buffer) {
  if (holds_own_block_only(rounds.problem.kind, buffer)) return rounds.problem.count;
  const Extent last = extent_of(rounds, buffer, rounds.blocks - 1);
  return last.first + last.elems;
}

/// One rank: its links, its plan and its memory.
struct Runner {
  std::unique_ptr<LinkTable> links;
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  std::unique_ptr<Plan> plan;
  PlanRun run;
};

Result<std::unique_ptr<LinkTable>> links_of(Rank rank, Rank size) {
  TransportContext context;
  context.table.resize(size);
  context.rank = rank;
  auto waiter = Waiter::make();
  if (!waiter) return tl::unexpected(waiter.error());
  std::vector<std::uint32_t> group(size);
  std::iota(group.begin(), group.end(), 0U);
  return std::make_unique<LinkTable>(
      1, std::move(group), std::make_shared<TransportSet>(context, "inproc"), std::move(*waiter));
}

Status prepare(const Picture& picture, Rank rank, Runner& runner) {
  const Rounds& rounds = picture.rounds;
  const Call& call = picture.call;
  const std::size_t elem_bytes = call.operation->has_data ? size_of(call.type) : 1;
  auto links = links_of(rank, rounds.problem.size);
  if (!links) return tl::unexpected(links.error());
  runner.links = std::move(*links);
  PlanRequest request;
  request.problem = rounds.problem;
  request.choice = one_window(rounds.problem, Algorithm::ring);
  request.choice.slice_elems = std::max<std::uint64_t>(
      std::min(request.choice.slice_elems, kMessageBytes / elem_bytes / rounds.blocks), 1);
  request.program = picture.programs[rank];
  request.type = call.operation->has_data ? call.type : DataType::uint8;
  request.op = call.operation->has_data ? call.op : ReduceOp::max;
  auto plan = Plan::make(request, *runner.links);
  if (!plan) return tl::unexpected(plan.error());
  runner.plan = std::move(*plan);
  runner.input = input_bytes(call.type, rank, elements_of(rounds, Buffer::input));
  runner.output.resize(elements_of(rounds, Buffer::output) * elem_bytes);
  runner.run.input.data = runner.input.data();
  runner.run.output.data = runner.output.data();
  runner.plan->start(runner.run);
  return {};
}

Status run_to_end(std::vector<Runner>& runners) {
  for (int idle = 0; idle < kMostIdleTurns; ++idle) {
    bool all_done = true;
    for (Runner& runner : runners) {
      if (runner.plan->done()) continue;
      all_done = false;
      const auto moved = runner.plan->advance();
      CCOLL_TRY(moved);
      if (*moved) idle = 0;
    }
    if (all_done) return {};
  }
  return fail(ErrorKind::internal,
              "the programs do not end, though the verifier says that they do");
}

Status check(const Picture& picture) {
  if (!picture.report.ok()) {
    return fail(ErrorKind::invalid_argument,
                "not executed, because the verifier says that it is wrong: {}",
                picture.report.findings.front().message);
  }
  if (picture.report.slots_needed > kLinkSlots) {
    return fail(ErrorKind::invalid_argument,
                "not executed: links must have {} slots for this schedule, expected at most {}",
                picture.report.slots_needed, kLinkSlots);
  }
  const std::uint64_t elems = elements_of(picture.rounds, Buffer::input);
  if (elems <= kMostExecuted) return {};
  return fail(ErrorKind::invalid_argument,
              "not executed: {} elements for each rank, expected at most {}", elems, kMostExecuted);
}

}  // namespace

Result<Executed> execute(const Picture& picture) {
  CCOLL_TRY(check(picture));
  const Rounds& rounds = picture.rounds;
  std::vector<Runner> runners(rounds.problem.size);
  for (Rank rank = 0; rank < rounds.problem.size; ++rank) {
    CCOLL_TRY(prepare(picture, rank, runners[rank]));
  }
  CCOLL_TRY(run_to_end(runners));
  Executed executed;
  executed.outputs.resize(rounds.problem.size);
  if (!picture.call.operation->has_data) return executed;
  const std::vector<Numbers> said =
      numbers_of(rounds, picture.call.op, picture.call.type, kMostExecuted);
  Board board(rounds);
  while (board.advance()) {
  }
  for (Rank rank = 0; rank < rounds.problem.size; ++rank) {
    for (std::uint32_t block = 0; block < rounds.blocks; ++block) {
      const Extent extent = extent_of(rounds, Buffer::output, block);
      if (!has_result(rounds.problem, rank, block) || extent.elems == 0) continue;
      const Numbers& expected = said[board.content_at(rank, Place::output, block)];
      const Numbers found =
          texts_of(picture.call.type, runners[rank].output, extent.first, extent.elems);
      for (std::size_t i = 0; i < found.size(); ++i) {
        executed.wrong += found[i] == expected[i] ? 0 : 1;
        executed.outputs[rank].push_back(found[i]);
      }
    }
  }
  return executed;
}

std::string executed_text(const Picture& picture, const Executed& executed) {
  std::string text = fmt::format("{}, executed over links between {} ranks of one process:\n",
                                 call_text(picture.call), executed.outputs.size());
  std::size_t elems = 0;
  for (Rank rank = 0; rank < executed.outputs.size(); ++rank) {
    Numbers output = executed.outputs[rank];
    elems += output.size();
    const bool is_long = output.size() > kMostTold;
    if (is_long) output.resize(kMostTold);
    text += fmt::format("  rank {:<5}{}{}\n", rank, joined(output, " "), is_long ? " .." : "");
  }
  if (!picture.call.operation->has_data) return text + "every rank has come\n";
  return text + fmt::format("{} of {} elements are what the picture says\n", elems - executed.wrong,
                            elems);
}

}  // namespace ccoll::show
