// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <random>

#include "gpu/cuda/peers.hpp"
#include "gpu/team/team_exact.hpp"
#include "gpu_check/figures/team_bench.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/phases/team_list.hpp"
#include "gpu_check/watchdog.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

using test::Exact;
using test::TeamCase;
using test::TeamMemory;

constexpr std::uint32_t kMostBlocks = 512;
constexpr std::uint32_t kMostFlags = 8192;

/// Compares random bits with the host's interpreter's result of the same program.
Status compare_bits(TeamBench& bench, testing::TeamOnHost& host, const TeamCase& made,
                    const device::LoweredTeam& lowered, const device::LoadedProgram* program,
                    TeamBench::Way way, std::mt19937_64& random) {
  TeamMemory expected(made, random);
  TeamMemory memory = expected;
  host.run(lowered, expected.buffers(), 1);
  CCOLL_TRY(bench.run(program, memory, way));
  if (memory == expected) return {};
  return fail(ErrorKind::corrupt, "bits differ from the host's: {}", memory.differences(expected));
}

/// Compares order-independent sums with the operation's definition.
Status compare_sums(TeamBench& bench, const TeamCase& made, const device::LoadedProgram* program,
                    TeamBench::Way way, std::mt19937_64& random) {
  if (made.problem.kind == Kind::barrier) return {};
  TeamMemory memory(made, random);
  Exact exact(made);
  exact.fill(memory);
  CCOLL_TRY(bench.run(program, memory, way));
  const auto wrong = exact.count_wrong(memory);
  if (wrong == 0) return {};
  return fail(ErrorKind::corrupt, "{} elements are not what the operation says", wrong);
}

Status try_case(TeamBench& bench, testing::TeamOnHost& host, const TeamCase& made,
                TeamBench::Way way, std::mt19937_64& random) {
  TeamCase placed = made;
  placed.devices = bench.team().device_numbers();
  const auto lowered = placed.lowered();
  const auto program = bench.team().load(lowered);
  CCOLL_TRY(program);
  CCOLL_TRY(compare_bits(bench, host, made, lowered, *program, way, random));
  return compare_sums(bench, made, *program, way, random);
}

const char* name(TeamBench::Way way) {
  switch (way) {
    case TeamBench::Way::one_thread:
      return "one thread for all ranks";
    case TeamBench::Way::thread_each:
      return "a thread for each rank";
    case TeamBench::Way::default_stream:
      return "rank 0 on the default stream";
  }
  return "";
}

}  // namespace

bool try_team(Rank ranks, std::uint32_t threads, const std::vector<TeamCase>& cases,
              Findings& findings, std::mt19937_64& random, device::CopyUse copies,
              const std::vector<int>& devices) {
  TeamBench bench(ranks, threads, copies, devices);
  testing::TeamOnHost host(kMostBlocks, kMostFlags, device::kMostTeamDevices);
  for (std::size_t i = 0; i < cases.size() && !findings.is_hopeless(); ++i) {
    if (is_late()) {
      findings.leave_out(
          fmt::format("{} of {} calls of {} ranks", cases.size() - i, cases.size(), ranks));
      return true;
    }
    const auto way = static_cast<TeamBench::Way>(random() % 3);
    findings.tried();
    const Status ran = try_case(bench, host, cases[i], way, random);
    if (ran) continue;
    findings.wrong(
        fmt::format("{}: {}, on GPUs{}, up to {} threads per block{}, {}", ran.error().message,
                    cases[i].text(), devices.empty() ? " 0" : test::listed(devices), threads,
                    copies == device::CopyUse::always ? " or by copies" : "", name(way)));
    // If bits differ, all else may work; any other failure has broken the team.
    if (ran.error().kind != ErrorKind::corrupt) return false;
  }
  return true;
}

EndlessCall endless_call() {
  const auto made = test::case_of(Kind::all_reduce, Algorithm::ring, 4, 1000, 50);
  auto lowered = made.lowered();
  lowered.blocks[1].steps.end = lowered.blocks[1].steps.begin + 1;
  return {made, lowered};
}

namespace {

/// A call that never ends by itself is ended at its deadline.
Status try_endless(std::mt19937_64& random) {
  const auto [made, lowered] = endless_call();
  TeamMemory memory(made, random);
  TeamBench bench(4, device::kMostTeamThreads);
  const auto program = bench.team().load(lowered);
  CCOLL_TRY(program);
  CCOLL_TRY(bench.begin(*program, memory));
  const Status ended =
      bench.team().wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
  if (ended) return fail(ErrorKind::corrupt, "a call that cannot end has ended");
  const std::string& said = ended.error().message;
  std::printf("a call that cannot end: %s\n", said.c_str());
  if (ended.error().kind != ErrorKind::timed_out || said.find("lane 0 not ended") == said.npos ||
      said.find("may still be written") != said.npos) {
    return fail(ErrorKind::corrupt, "a call that cannot end: {}", said);
  }
  CCOLL_TRY(device::cuda_status(cudaDeviceSynchronize(), "a kernel that was told to end"));
  const auto refused = bench.begin(*program, memory);
  if (!refused && refused.error().kind == ErrorKind::timed_out) return {};
  return fail(ErrorKind::corrupt, "a broken team takes further calls");
}

}  // namespace

namespace {

/// Calls that can be copies, with fewer of those that cannot in between.
void try_copies(Rank ranks, const std::vector<TeamCase>& cases, Findings& findings,
                std::mt19937_64& random, const std::vector<int>& devices = {}) {
  const Check check(findings, fmt::format("a team of {} by copies{}", ranks,
                                          devices.empty() ? "" : " on several GPUs"));
  std::vector<TeamCase> chosen;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const bool is_copied = !cases[i].lowered().copies.empty();
    if (is_copied || i % testing::by_effort(30, 4, 4) == 0) chosen.push_back(cases[i]);
  }
  if (testing::reduced() && chosen.size() > 12) chosen.resize(12);
  try_team(ranks, device::kMostTeamThreads, chosen, findings, random, device::CopyUse::always,
           devices);
}

/// Teams over all GPUs in some order, if there are several. If they cannot reach each other, that
/// is reported, but is no error.
void try_all_gpus(Findings& findings, const PhaseContext& context, Watchdog& watchdog,
                  std::mt19937_64& random) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) return;
  count = std::min(count, static_cast<int>(device::kMostTeamDevices));
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  watchdog.at("what GPUs reach of each other");
  if (const auto reached = device::reach_peers(all); !reached) {
    std::printf("no team of %d GPUs: %s\n", count, reached.error().message.c_str());
    context.records.add(
        {{"phase", context.name}, {"what", "no peers"}, {"why", reached.error().message}});
    return;
  }
  if (const auto copied = device::reach_by_copies(all); !copied) {
    std::printf("no copies between %d GPUs: %s\n", count, copied.error().message.c_str());
    context.records.add(
        {{"phase", context.name}, {"what", "no copies"}, {"why", copied.error().message}});
  }
  for (const Rank ranks : {static_cast<Rank>(count), 8U}) {
    std::vector<int> devices;
    for (Rank rank = 0; rank < ranks; ++rank) devices.push_back(static_cast<int>(rank) % count);
    std::shuffle(devices.begin(), devices.end(), random);
    const auto cases = test::pairwise_cover(ranks, random);
    std::vector<TeamCase> chosen;
    const std::size_t stride = testing::by_effort(30, 4, 1);
    for (std::size_t i = 0; i < cases.size(); i += stride) chosen.push_back(cases[i]);
    watchdog.at(fmt::format("a team of {} on {} GPUs", ranks, count));
    const Check check(findings, fmt::format("a team of {} on {} GPUs", ranks, count));
    try_team(ranks, device::kMostTeamThreads, chosen, findings, random, device::CopyUse::by_size,
             devices);
    context.records.add({{"phase", context.name},
                         {"what", "team of several GPUs"},
                         {"ranks", ranks},
                         {"gpus", count},
                         {"cases", chosen.size()}});
    watchdog.at(fmt::format("a team of {} on {} GPUs by copies", ranks, count));
    try_copies(ranks, cases, findings, random, devices);
  }
}

}  // namespace

int run_teams(const PhaseContext& context) {
  Findings findings(context);
  std::mt19937_64 random(context.seed);
  Watchdog watchdog(context, std::chrono::seconds(testing::by_effort(15, 25, 60)));
  int left = 15;
  for (const Rank ranks : {2U, 1U, 3U, 4U, 8U}) {
    const auto cases = test::pairwise_cover(ranks, random);
    // With the most threads, and with one warp, for which barriers are cheaper.
    for (const std::uint32_t threads : {device::kMostTeamThreads, 32U}) {
      std::vector<TeamCase> chosen;
      const std::size_t stride = testing::by_effort(30, 1, 1);
      for (std::size_t i = 0; i < cases.size(); i += stride) chosen.push_back(cases[i]);
      Until::here().begin_part(left--);
      const auto name = fmt::format("a team of {} with {} threads in a block", ranks, threads);
      const Check check(findings, name);
      watchdog.at(name);
      try_team(ranks, threads, chosen, findings, random);
    }
    Until::here().begin_part(left--);
    watchdog.at(fmt::format("a team of {} by copies", ranks));
    try_copies(ranks, cases, findings, random);
  }
  try_all_gpus(findings, context, watchdog, random);
  // The last check, since a failure leaves a kernel behind.
  watchdog.at("a call that cannot end");
  {
    const Check check(findings, "a call that cannot end");
    findings.tried();
    if (const Status ended = try_endless(random); !ended) findings.wrong(ended.error().message);
  }
  return findings.close("calls");
}

}  // namespace ccoll::gpu_check
