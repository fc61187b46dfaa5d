// SPDX-License-Identifier: Apache-2.0
// Ranks that die, are late or give up: the others report why, and their streams still work.
#include <signal.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "rank_processes.hpp"
#include "stream_group_parts.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/gpu/team_on_host.hpp"

namespace ccoll::test {

namespace {

/// A call of many steps.
TeamCase long_case(Rank size) { return ring_case(Kind::all_reduce, size); }

/// A call that uses words, if there are any.
TeamCase tiny_case(Rank size) {
  return test::case_of(Kind::all_reduce, Algorithm::ring, size, 50, 50);
}

/// A rank that is about to make such a call.
struct LongCall {
  LongCall(Rank rank, Rank size, device::Exchange& exchange, std::uint64_t seed = 1,
           MakeCase make = long_case)
      : random(seed), bench(join(rank, size, exchange)), made(make(size)) {}

  std::mt19937_64 random;
  const std::unique_ptr<GroupBench> bench;
  const TeamCase made;
  const device::GroupProgram* const program = value_or_throw(bench->load(made));
  TeamMemory memory{made, random};
};

/// The stream has finished and still works, and the group reports why it has failed.
void check_survivor(GroupBench& bench, Rank rank, const device::GroupProgram* program,
                    const Status& ended, const std::string& what) {
  const std::string said = ended ? "no error" : ended.error().message;
  const bool is_over = !ended && said.find("may still be written") == said.npos;
  check(is_over, what + ": " + said);
  if (!is_over) return;
  check(cudaStreamSynchronize(bench.stream()) == cudaSuccess, what + ": the stream ends");
  std::mt19937_64 random(1);
  TeamMemory memory(long_case(rank + 1), random);
  GroupBench::Trip trip(bench, 0, memory);
  const TeamMemory before = memory;
  check(trip.go(bench.stream()).has_value() &&
            cudaStreamSynchronize(bench.stream()) == cudaSuccess && trip.come_back().has_value() &&
            memory == before,
        what + ": the stream still works");
  const Status refused = bench.group().call(program, trip.input(), trip.output(), bench.stream());
  check(!refused && !ended && refused.error().kind == ended.error().kind,
        what + ": further calls are refused with the cause");
}

/// Dies after some looks. Each look lets the stream make progress.
void look_and_die(GroupBench& bench, std::size_t looks) {
  const auto event = value_or_throw(device::make_event());
  cudaEventRecord(event.get(), bench.stream());
  for (; looks > 0; looks--) cudaEventQuery(event.get());
  kill(getpid(), SIGKILL);
}

}  // namespace

std::vector<MakeCase> kinds_of_calls() {
  if (!by_kernels()) return {long_case};
  return {long_case, tiny_case};
}

/// Rank 1 dies in the middle of a call; another call may be queued behind it.
void test_killed(unsigned seed) {
  const int rounds = testing::by_effort(2, 6, 60);
  for (int round = 0; round < rounds; round++) {
    const Rank size = 2 + round % 3;
    const auto what = fmt::format("killed in round {} of seed {}", round, seed);
    run_processes(
        what, size,
        [&](Rank rank, device::Exchange& exchange) {
          LongCall call(rank, size, exchange, seed + round);
          auto& [random, bench, made, program, memory] = call;
          if (round % 3 != 0) {
            // The memory is being read while its owner dies.
            GroupTrials trials(*bench, random, kLong);
            check_lent(*bench, trials, made, kLentKinds[round % 2], true, what);
          }
          GroupBench::Trip trip(*bench, 0, memory), next(*bench, 1, memory);
          check(bench->begin(program, trip).has_value(), what);
          if (round % 2 == 0) check(bench->begin(program, next).has_value(), what);
          // All have called before any gives up.
          value_or_throw(exchange.swap("", {}, in(kLong)));
          if (rank == 1) look_and_die(*bench, random() % 5);
          const auto begin = std::chrono::steady_clock::now();
          const Status ended = bench->group().wait(in(500ms));
          check(std::chrono::steady_clock::now() - begin < 20s, what + ": ends in time");
          check_survivor(*bench, rank, program, ended, fmt::format("{}: rank {}", what, rank));
          const std::string said = ended ? "" : ended.error().message;
          const char* const stands = by_kernels() ? "steps of call" : "stands after";
          check(said.find(stands) != said.npos, what + " says where it stands: " + said);
        },
        1);
  }
}

/// Rank 1 dies among tiny calls; those before are complete, and none is queued.
void test_killed_among_words(unsigned seed) {
  const int rounds = testing::by_effort(3, 8, 80);
  for (int round = 0; round < rounds; round++) {
    const Rank size = 2 + round % 3;
    const auto what = fmt::format("killed among words in round {} of seed {}", round, seed);
    run_processes(
        what, size,
        [&](Rank rank, device::Exchange& exchange) {
          LongCall call(rank, size, exchange, seed + round, tiny_case);
          auto& [random, bench, made, program, memory] = call;
          testing::TeamOnHost host(512, 8192);
          const auto lowered = test::lowered_for_streams(made);
          const std::size_t last = random() % 20;
          for (std::size_t i = 0;; i++) {
            TeamMemory here(made, random), expected = here;
            host.run(lowered, expected.buffers(), 1);
            if (i == last) value_or_throw(exchange.swap("", {}, in(kLong)));
            if (i == last && rank == 1) {
              GroupBench::Trip trip(*bench, 0, here);
              check(bench->begin(program, trip).has_value(), what);
              look_and_die(*bench, random() % 8);
            }
            const Status ran = bench->run(program, here, i < last ? in(kLong) : in(500ms));
            if (!ran) {
              check(i >= last, fmt::format("{}: call {} of {} before", what, i, last));
              check_survivor(*bench, rank, program, ran, fmt::format("{}: rank {}", what, rank));
              return;
            }
            check(i <= last, what + ": a call without it");
            check(std::ranges::equal(here.all(rank), expected.all(rank)),
                  fmt::format("{}: bits of call {}", what, i));
          }
        },
        1);
  }
}

/// Rank 1 never calls: a rank that waits for it reports that at its deadline.
void test_late() {
  run_processes("late", 2, [&](Rank rank, device::Exchange& exchange) {
    LongCall call(rank, 2, exchange);
    auto& [random, bench, made, program, memory] = call;
    if (rank == 0) {
      GroupBench::Trip trip(*bench, 1, memory);
      check(bench->begin(program, trip).has_value(), "late: the call is begun");
      const Status ended = bench->group().wait(in(300ms));
      const std::string said = ended ? "no error" : ended.error().message;
      // Earlier calls are those that probed the kernels.
      const char* const stands = by_kernels() ? "rank 0's lane 0 not ended after 1 steps of call 6"
                                              : "waits for slice 1 of rank 1 (which has sent 0)";
      check(!ended && ended.error().kind == ErrorKind::timed_out && said.find(stands) != said.npos,
            "late: it says for whom it waits: " + said);
      check_survivor(*bench, rank, program, ended, "late");
    }
    value_or_throw(exchange.swap("", {}, in(kLong)));
  });
}

/// After a group has been given up, ranks that have mapped memory may still read it.
void test_given_up_while_lent() {
  run_processes("given up while lent", 2, [&](Rank rank, device::Exchange& exchange) {
    std::mt19937_64 random(1);
    auto bench = join(rank, 2, exchange);
    GroupTrials trials(*bench, random, kLong);
    for (const MemoryKind kind : kLentKinds)
      check_lent(*bench, trials, ring_case(Kind::all_gather, 2), kind, true, "given up while lent");
    value_or_throw(exchange.swap("", {}, in(kLong)));
    const std::size_t before = mappings();
    check(cuda_on_host_opened() == kOfSamples + 1, "given up while lent: one is open");
    const auto registered = bench->give_away(MemoryKind::registered, 0);
    if (rank == 0) {
      bench->group().abort({ErrorKind::aborted, "enough", std::nullopt});
      bench->give_away(MemoryKind::allocated, 0).reset();
      check(!registered->lent().is_back_within(100ms), "given up while lent: it is not back");
    }
    value_or_throw(exchange.swap("", {}, in(kLong)));
    // Others soon hear that it is gone.
    std::this_thread::sleep_for(100ms);
    check(mappings() == before - (rank == 0 ? 1 : 0), "given up while lent: it stays mapped");
    check(cuda_on_host_opened() == kOfSamples + 1, "given up while lent: it stays open");
    value_or_throw(exchange.swap("", {}, in(kLong)));
    bench.reset();
    check(registered->lent().is_back_within(kLong), "given up while lent: it comes back at last");
  });
}

/// A rank's lent memory comes back when its own group ends, even if other groups continue.
void test_ended_here() {
  run_processes("ended here", 2, [&](Rank rank, device::Exchange& exchange) {
    std::mt19937_64 random(1);
    auto bench = join(rank, 2, exchange);
    GroupTrials trials(*bench, random, kLong);
    check_lent(*bench, trials, ring_case(Kind::all_gather, 2), MemoryKind::registered, true,
               "ended here");
    value_or_throw(exchange.swap("", {}, in(kLong)));
    if (rank == 0) {
      const auto room = bench->give_away(MemoryKind::registered, 0);
      bench.reset();
      check(room->lent().is_back_within(kLong), "ended here: it comes back");
    }
    value_or_throw(exchange.swap("", {}, in(kLong)));
  });
}

/// Rank 0's graph runs beside its call that waits for rank 1: both end, and all report why.
void test_beside(MakeCase make) {
  run_processes("one beside another", 2, [&](Rank rank, device::Exchange& exchange) {
    LongCall call(rank, 2, exchange, 1, make);
    auto& [random, bench, made, program, memory] = call;
    GroupBench::Trip trip(*bench, 0, memory), other(*bench, 1, memory);
    cudaStream_t const beside = bench->stream(1);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launched = nullptr;
    check(cudaStreamBeginCapture(beside, cudaStreamCaptureModeGlobal) == cudaSuccess, "a capture");
    const Status called = bench->group().call(program, other.input(), other.output(), beside, true);
    check(called && cudaStreamEndCapture(beside, &graph) == cudaSuccess &&
              cudaGraphInstantiate(&launched, graph, 0) == cudaSuccess,
          "a capture of a call");
    // Both have captured their calls before anything ends.
    value_or_throw(exchange.swap("", {}, in(kLong)));
    if (rank == 0) {
      check(bench->begin(program, trip).has_value(), "a call");
      check(cudaGraphLaunch(launched, beside) == cudaSuccess, "a graph beside it");
      const Status ended = bench->group().wait(in(kLong));
      check_survivor(*bench, rank, program, ended, "one beside another");
      check(cudaStreamSynchronize(beside) == cudaSuccess, "the graph ends, too");
    }
    value_or_throw(exchange.swap("", {}, in(kLong)));
    const Status told = bench->group().check();
    const std::string said = told ? "no error" : told.error().message;
    check(said.find("rank 0's call of a team found another one under way") == 0,
          fmt::format("rank {} says why: {}", rank, said));
    cudaGraphExecDestroy(launched);
    cudaGraphDestroy(graph);
  });
}

/// One rank does not call and another gives up: the others hear of it.
void test_given_up(MakeCase make) {
  run_processes("given up", 3, [&](Rank rank, device::Exchange& exchange) {
    LongCall call(rank, 3, exchange, 1, make);
    auto& [random, bench, made, program, memory] = call;
    GroupBench::Trip trip(*bench, 1, memory);
    if (rank == 2) {
      std::this_thread::sleep_for(20ms);
      bench->group().abort({ErrorKind::mismatch, "something else was called", 0});
      const Status refused = bench->group().check();
      check(!refused && refused.error().message == "something else was called", "own words");
      return;
    }
    const TeamMemory before = memory;
    Status ended = bench->begin(program, trip);
    if (ended) ended = bench->group().wait(in(kLong));
    const std::string said = ended ? "no error" : ended.error().message;
    check(said.find("rank 2 gave up: something else was called") == 0 &&
              ended.error().kind == ErrorKind::mismatch && ended.error().culprit == 0,
          "the others hear of it: " + said);
    check_survivor(*bench, rank, program, ended, "given up");
    // Without rank 2 there is no sum of all, so the released call does nothing.
    GroupBench::Trip after(*bench, 1, memory);
    check(after.come_back().has_value() && memory == before, "given up: nothing is stored");
  });
}

}  // namespace ccoll::test
