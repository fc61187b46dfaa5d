// SPDX-License-Identifier: Apache-2.0
// Calls of teams, communicators and processes, while other threads use the GPU in ways that may
// make it wait: no result is wrong, and nothing hangs.
#include <filesystem>
#include <functional>
#include <random>
#include <thread>

#include "gpu/kernel/team_kernel.hpp"
#include "gpu/team/team_case.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/phases/disturbance.hpp"
#include "gpu_check/phases/known_calls.hpp"
#include "gpu_check/phases/team_list.hpp"
#include "gpu_check/watchdog.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

const std::chrono::seconds kAdversaryPatience{testing::by_effort(10, 20, 60)};

void disturb_team(const PhaseContext& context, Findings& findings) {
  std::mt19937_64 random(context.seed);
  const auto all = test::pairwise_cover(4, random);
  std::vector<test::TeamCase> cases;
  for (std::size_t i = 0; i < all.size(); i += testing::by_effort<std::size_t>(20, 4, 2))
    cases.push_back(all[i]);
  Disturbance disturbance;
  try_team(4, device::kMostTeamThreads, cases, findings, random);
  for (const std::string& each : disturbance.end()) findings.wrong("beside a team: " + each);
}

/// A rank's errors, by round.
std::vector<std::string> run_rank(const std::shared_ptr<Store>& store, int rank, int size) {
  const int rounds = testing::by_effort(10, 200, 1000);
  std::vector<std::string> wrong;
  try {
    const auto stream = value_or_throw(device::make_stream());
    KnownCalls calls(5000, size, rounds);
    CommunicatorOptions options;
    options.device.ordinal = 0;
    options.timeout = kAdversaryPatience / 2;
    auto communicator = Communicator::create(store, rank, size, options);
    for (int round = 0; round < rounds; round++) {
      calls.put(round, rank, size, stream.get());
      calls.call(communicator, stream.get());
      if (auto found = calls.wrong(stream.get()); !found.empty()) wrong.push_back(std::move(found));
      if (const auto broken = communicator.error(); !broken.empty())
        throw std::runtime_error("broken: " + broken);
    }
    // Freeing memory waits for all streams of the process, so all must be done first.
    communicator.barrier();
  } catch (const std::exception& error) {
    wrong.push_back(fmt::format("rank {} of {}: {}", rank, size, error.what()));
  }
  return wrong;
}

void disturb_communicator(int size, Findings& findings) {
  const auto store = make_inproc_store();
  std::vector<std::vector<std::string>> wrong(static_cast<std::size_t>(size));
  Disturbance disturbance;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; rank++) {
      threads.emplace_back(
          [&, rank] { wrong[static_cast<std::size_t>(rank)] = run_rank(store, rank, size); });
    }
  }
  for (const auto& of_rank : wrong) {
    findings.tried();
    for (const auto& each : of_rank) findings.wrong(each);
  }
  for (const std::string& each : disturbance.end())
    findings.wrong("beside a communicator: " + each);
}

}  // namespace

int run_adversary(const PhaseContext& context) {
  Findings findings(context);
  Watchdog watchdog(context, kAdversaryPatience);
  const auto beside_other_work = [&](const std::string& what, const std::function<void()>& run) {
    const Check check(findings, what + " beside other work");
    watchdog.at(what + " beside other work");
    run();
  };
  beside_other_work("a team's calls", [&] { disturb_team(context, findings); });
  for (const int size : {2, 4}) {
    beside_other_work(fmt::format("calls of a communicator of {} threads", size),
                      [&] { disturb_communicator(size, findings); });
  }
  beside_other_work("processes", [&] {
    watchdog.rest();  // they have their own watchdogs
    run_disturbed_processes(context, findings);
  });
  return findings.close("calls, ranks and processes");
}

}  // namespace ccoll::gpu_check
