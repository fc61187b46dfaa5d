// SPDX-License-Identifier: Apache-2.0
// A rank is killed, stopped, absent, or aborts while calls are under way, and a spinning kernel is
// asked to end. The other ranks check what they are owed.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "gpu_check/children.hpp"
#include "gpu_check/figures/team_bench.hpp"
#include "gpu_check/figures/timed_team.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/phases/graph.hpp"
#include "gpu_check/phases/survivor.hpp"
#include "gpu_check/phases/team_list.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSize = 3;
/// For a rank; its parent waits a little longer, so that the rank itself reports where it hangs.
const std::chrono::seconds kFaultPatience{testing::by_effort(60, 20, 60)};
constexpr Fault kFaults[] = {Fault::killed, Fault::stopped, Fault::absent, Fault::aborted};

std::string store_of(const PhaseContext& context) { return context.out + "/faults.store"; }

/// The same for all ranks.
FaultCase case_of(const PhaseContext& context, Fault fault) {
  FaultCase made{fault, kSize, 0, context.seed + static_cast<std::uint64_t>(fault)};
  made.victim = static_cast<int>(std::mt19937_64(made.seed)() % kSize);
  return made;
}

void tell(const PhaseContext& context, const FaultCase& what, int rank, const char* ranks_are,
          const Survival& survival, Findings& findings) {
  for (std::uint64_t i = 0; i < survival.tried; i++) findings.tried();
  for (const auto& each : survival.wrong) findings.wrong(each);
  std::printf("%s\n",
              fmt::format("{}, rank {} {}: rank {} after {:.3f} s: {}", ranks_are, what.victim,
                          to_string(what.fault), rank, survival.error_after_s, survival.said)
                  .c_str());
  std::fflush(stdout);
  context.records.add({{"phase", context.name},
                       {"what", "survival"},
                       {"fault", to_string(what.fault)},
                       {"ranks_are", ranks_are},
                       {"ranks", what.size},
                       {"victim", what.victim},
                       {"rank", rank},
                       {"error_after_s", survival.error_after_s},
                       {"said", survival.said}});
}

void run_threads(const PhaseContext& context, const FaultCase& what, Watchdog& watchdog,
                 Findings& findings) {
  const auto store = make_inproc_store();
  std::vector<Survival> survivals(kSize);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kSize; rank++) {
      threads.emplace_back([&, rank] {
        survivals[static_cast<std::size_t>(rank)] = run_through(what, rank, store, watchdog);
      });
    }
  }
  for (int rank = 0; rank < kSize; rank++)
    tell(context, what, rank, "threads", survivals[static_cast<std::size_t>(rank)], findings);
}

/// A kernel waits for ever until another thread ends it; then the GPU must still work.
void abort_spinning(Findings& findings, std::mt19937_64& random) {
  const EndlessCall endless = endless_call();
  findings.tried();
  TeamBench bench(endless.made.problem.size, device::kMostTeamThreads);
  const auto program = value_or_throw(bench.team().load(endless.lowered));
  test::TeamMemory memory(endless.made, random);
  value_or_throw(bench.begin(program, memory));
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    bench.team().abort({ErrorKind::aborted, "told by another thread", 2});
  });
  const auto begin = Clock::now();
  const Status ended =
      bench.team().wait(begin + std::chrono::seconds(testing::by_effort(2, 10, 10)));
  const std::chrono::duration<double> took = Clock::now() - begin;
  const std::string said = ended ? "it ended well" : ended.error().message;
  std::printf("a kernel that spins, aborted by another thread: after %.3f s: %s\n", took.count(),
              said.c_str());
  if (ended || ended.error().kind != ErrorKind::aborted ||
      said.find("told by another thread") == said.npos) {
    findings.wrong("a kernel that spins and is aborted by another thread: " + said);
    // Resources of a kernel that still runs cannot be freed.
    std::_Exit(findings.close("things after faults"));
  }
  check(cudaDeviceSynchronize(), "a kernel that was told to end");
}

/// A graph is launched while another call of its team cannot end, with the same operation or with
/// copies: both end with an error.
void run_beside(bool by_copies, Findings& findings, std::mt19937_64& random) {
  const EndlessCall endless = endless_call();
  const auto ranks = static_cast<std::uint32_t>(endless.made.problem.size);
  findings.tried();
  test::TeamCase made = endless.made;
  if (by_copies) made.problem.kind = Kind::all_gather;
  test::TeamMemory memory(endless.made, random), beside(made, random);
  TeamBench bench(ranks, device::kMostTeamThreads, device::CopyUse::always);
  const auto stuck = value_or_throw(bench.team().load(endless.lowered));
  const auto whole = value_or_throw(bench.team().load(made.lowered()));
  std::vector<device::OwnStream> owned;
  std::vector<cudaStream_t> streams;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    owned.push_back(value_or_throw(device::make_stream()));
    streams.push_back(owned.back().get());
  }
  const auto buffers = value_or_throw(make_buffers(2 * ranks, beside.all(0).size()));
  const Graph graph(streams, [&] {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      value_or_throw(bench.team().arrive({.rank = rank,
                                          .program = whole,
                                          .input = buffers[2 * rank].get(),
                                          .output = buffers[2 * rank + 1].get(),
                                          .stream = streams[rank]}));
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      value_or_throw(bench.team().leave(rank, TeamBench::soon()));
  });
  value_or_throw(bench.begin(stuck, memory));
  // Wait until it has begun; queries also let a simulated GPU make progress.
  const auto behind = value_or_throw(device::make_event());
  check(cudaEventRecord(behind.get(), bench.stream(0)), "an event behind a call");
  const auto begin = Clock::now();
  while (Clock::now() < begin + std::chrono::milliseconds(200)) cudaEventQuery(behind.get());
  (void)cudaGetLastError();
  graph.launch(streams);
  check(cudaStreamSynchronize(streams[0]), "a graph beside a call of its team");
  const Status ended = bench.team().wait(TeamBench::soon());
  const std::string said = ended ? "it ended well" : ended.error().message;
  const char* const what = by_copies ? "copies" : "a kernel";
  std::printf("a call that cannot end, and a graph of %s beside it: %s\n", what, said.c_str());
  if (said.find("found another one under way") == said.npos)
    findings.wrong(fmt::format("a graph of {} beside another call of its team: {}", what, said));
  check(cudaDeviceSynchronize(), "two calls that found each other");
}

void run_processes_through(const PhaseContext& context, const FaultCase& what, Findings& findings) {
  std::filesystem::remove(store_of(context));
  std::vector<pid_t> children;
  for (int rank = 0; rank < what.size; rank++) {
    children.push_back(start_peer("fault", PeerArguments::text(std::string(to_string(what.fault)),
                                                               what.size, rank, context)));
  }
  const bool ends = what.fault == Fault::killed || what.fault == Fault::stopped;
  const pid_t victim = children[static_cast<std::size_t>(what.victim)];
  if (ends) std::erase(children, victim);
  await_peers(children, findings, kFaultPatience + std::chrono::seconds(5));
  if (!ends) return;
  kill(victim, SIGKILL);
  int status = 0;
  waitpid(victim, &status, 0);
  findings.tried();
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
    findings.wrong(fmt::format("rank {} was to be {}, and ended by itself", what.victim,
                               to_string(what.fault)));
}

}  // namespace

int run_fault(const std::string& handle) {
  const PeerArguments arguments(handle);
  const Records records(arguments.out + "/results.jsonl");
  const PhaseContext context{"faults", records, arguments.seed, arguments.out};
  const auto fault = std::ranges::find(kFaults, arguments.kind, to_string);
  const FaultCase what = case_of(context, *fault);
  Watchdog watchdog(context, kFaultPatience);
  Findings findings(context);
  const auto store =
      make_prefix_store(make_file_store(store_of(context)), std::string(to_string(what.fault)));
  tell(context, what, arguments.rank, "processes",
       run_through(what, arguments.rank, store, watchdog), findings);
  return findings.close(fmt::format("things of rank {}", arguments.rank));
}

int run_faults(const PhaseContext& context) {
  Findings findings(context);
  Watchdog watchdog(context, kFaultPatience + std::chrono::seconds(10));
  for (const Fault fault : kFaults) {
    const Check check(findings, fmt::format("processes of which one is {}", to_string(fault)));
    watchdog.at(fmt::format("processes of which one is {}", to_string(fault)));
    run_processes_through(context, case_of(context, fault), findings);
  }
  std::filesystem::remove(store_of(context));
  for (const Fault fault : {Fault::absent, Fault::aborted}) {
    const Check check(findings, fmt::format("threads of which one is {}", to_string(fault)));
    run_threads(context, case_of(context, fault), watchdog, findings);
  }
  std::mt19937_64 random(context.seed);
  watchdog.at("a graph beside another call of its team");
  for (const bool by_copies : {false, true}) {
    const Check check(findings, fmt::format("a graph of {} beside another call of its team",
                                            by_copies ? "copies" : "a kernel"));
    run_beside(by_copies, findings, random);
  }
  watchdog.at("the abort of a kernel that spins");
  {
    const Check check(findings, "the abort of a kernel that spins");
    abort_spinning(findings, random);
  }
  watchdog.at("a team after faults");
  {
    const Check check(findings, "a team after faults");
    auto cases = test::pairwise_cover(4, random);
    cases.resize(5);
    try_team(4, device::kMostTeamThreads, cases, findings, random);
  }
  return findings.close("things after faults");
}

}  // namespace ccoll::gpu_check
