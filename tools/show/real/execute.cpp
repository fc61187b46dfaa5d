// SPDX-License-Identifier: Apache-2.0
#include "show/real/execute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "bench/command/columns.hpp"
#include "bench/measure/measure.hpp"
#include "core/text.hpp"
#include "engine/plan.hpp"
#include "show/real/local_ranks.hpp"
#include "transport/link.hpp"

namespace ccoll::show {

namespace {

constexpr std::uint64_t kMostExecuted = 1 << 16;
/// Bytes of a message, far less than a link's slot holds.
constexpr std::uint64_t kMessageBytes = 16 << 10;
using Clock = std::chrono::steady_clock;
/// If nothing has moved for this long, nothing will.
constexpr std::chrono::seconds kPatience{20};
/// Enough for a median.
constexpr bench::Effort kEffort{.iters = 270, .warmup = 10};
constexpr std::size_t kMostTold = 16;

/// The elements of the caller's buffer that block `block` holds, and their total.
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

/// One rank: its plan and its memory.
struct Executor {
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  std::unique_ptr<Plan> plan;
  PlanRun run;
};

Status prepare(const Picture& picture, Rank rank, LinkTable& links, Executor& executor) {
  const Rounds& rounds = picture.rounds;
  const Call& call = picture.call;
  const std::size_t elem_bytes = call.operation->has_data ? size_of(call.type) : 1;
  PlanRequest request;
  request.problem = rounds.problem;
  request.choice = one_window(rounds.problem, Algorithm::ring);
  request.choice.slice_elems = std::max<std::uint64_t>(
      std::min(request.choice.slice_elems, kMessageBytes / elem_bytes / rounds.blocks), 1);
  request.program = picture.programs[rank];
  request.type = call.operation->has_data ? call.type : DataType::uint8;
  request.op = call.operation->has_data ? call.op : ReduceOp::max;
  auto plan = Plan::make(request, links);
  if (!plan) return tl::unexpected(plan.error());
  executor.plan = std::move(*plan);
  executor.input = input_bytes(call.type, rank, elements_of(rounds, Buffer::input));
  executor.output.resize(elements_of(rounds, Buffer::output) * elem_bytes);
  executor.run.input.data = executor.input.data();
  executor.run.output.data = executor.output.data();
  return {};
}

void start(Executor& executor) {
  ++executor.run.sequence;
  executor.plan->start(executor.run);
}

tl::unexpected<Failure> never_ends() {
  return fail(ErrorKind::internal,
              "the programs do not end, though the verifier says that they do");
}

/// One call by this thread, which drives all ranks in turn.
Status run_to_end(std::vector<Executor>& executors) {
  for (Executor& executor : executors) start(executor);
  auto last_moved = Clock::now();
  while (Clock::now() - last_moved < kPatience) {
    bool all_done = true;
    for (Executor& executor : executors) {
      if (executor.plan->done()) continue;
      all_done = false;
      const auto moved = executor.plan->advance();
      CCOLL_TRY(moved);
      if (*moved) last_moved = Clock::now();
    }
    if (all_done) return {};
  }
  return never_ends();
}

/// One rank's part in a call, on its own thread.
Status run_rank(Executor& executor) {
  start(executor);
  auto idle_since = Clock::now();
  for (std::uint64_t idle = 0; !executor.plan->done();) {
    const auto moved = executor.plan->advance();
    CCOLL_TRY(moved);
    idle = *moved ? 0 : idle + 1;
    if (idle == 0) continue;
    if (idle == 1) idle_since = Clock::now();
    if (idle % 1024 == 0 && Clock::now() - idle_since > kPatience) return never_ends();
    std::this_thread::yield();
  }
  return {};
}

/// Times a call. All ranks' communicators are used to begin together and to find the slowest.
Status measure(std::vector<Executor>& executors, Executed& executed) {
  const std::string wrong =
      on_every_rank(static_cast<Rank>(executors.size()), "inproc", [&](Communicator& communicator) {
        Executor& executor = executors[static_cast<std::size_t>(communicator.rank())];
        const bench::Timing timing = bench::measure(communicator, kEffort, [&] {
          const Status status = run_rank(executor);
          if (!status) throw std::runtime_error(status.error().message);
        });
        if (communicator.rank() > 0) return;
        executed.median_us = timing.p50_us;
        executed.calls = timing.iters;
      });
  if (wrong.empty()) return {};
  return fail(ErrorKind::internal, "{}", wrong);
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

/// Collects each rank's results and compares them with the picture's.
void look_at_results(const Picture& picture, const std::vector<Executor>& executors,
                     Executed& executed) {
  const Rounds& rounds = picture.rounds;
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
          texts_of(picture.call.type, executors[rank].output, extent.first, extent.elems);
      for (std::size_t i = 0; i < found.size(); ++i) {
        executed.wrong += found[i] == expected[i] ? 0 : 1;
        executed.outputs[rank].push_back(found[i]);
      }
    }
  }
}

}  // namespace

Result<Executed> execute(const Picture& picture, const ExecuteOptions& options) {
  CCOLL_TRY(check(picture));
  const auto links = LocalLinks::open(picture.rounds.problem.size, options.transport);
  if (!links) return tl::unexpected(links.error());
  std::vector<Executor> executors(picture.rounds.problem.size);
  for (Rank rank = 0; rank < executors.size(); ++rank) {
    CCOLL_TRY(prepare(picture, rank, (*links)->of(rank), executors[rank]));
  }
  CCOLL_TRY(run_to_end(executors));
  Executed executed;
  executed.outputs.resize(executors.size());
  if (picture.call.operation->has_data) look_at_results(picture, executors, executed);
  if (options.timed) CCOLL_TRY(measure(executors, executed));
  return executed;
}

std::string executed_text(const Picture& picture, const Executed& executed,
                          const std::string& transport, std::size_t width) {
  std::string text =
      bench::wrapped(fmt::format("{}, executed over {} links between {} ranks of one process:",
                                 call_text(picture.call), transport, executed.outputs.size()),
                     width);
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
