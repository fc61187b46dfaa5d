// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/group.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "faces/nccl/settings/environment.hpp"
#include "faces/nccl/versioned.hpp"
#include "system/log.hpp"

namespace ccoll::nccl {
namespace {

struct Group {
  int depth = 0;
  std::vector<Job> jobs;
  std::vector<Call> calls;
  std::optional<Refusal> failure;

  /// Resets it to its state before ncclGroupStart, but keeps the memory.
  void reset() {
    jobs.clear();
    calls.clear();
    failure.reset();
  }
};

/// "3 of its calls were never made, among them ncclAllReduce on rank 0 of …".
std::string never_made_text(const Group& open) {
  const auto first =
      open.calls.empty() ? std::string(open.jobs.front().function) : open.calls.front().text();
  const auto& comm = open.calls.empty() ? *open.jobs.front().comm : *open.calls.front().comm;
  const auto count = open.calls.size() + open.jobs.size();
  return fmt::format("{} of its calls {} never made, among them {} on {}", count,
                     count == 1 ? "was" : "were", first, comm.text());
}

struct GroupOfThread : Group {
  GroupOfThread() = default;
  GroupOfThread(const GroupOfThread&) = delete;
  GroupOfThread& operator=(const GroupOfThread&) = delete;
  /// Nobody else would hear of calls that were noted and never made.
  ~GroupOfThread() {
    if (depth == 0 || (calls.empty() && jobs.empty())) return;
    try {
      log().warn("ncclGroupStart without ncclGroupEnd: {}", never_made_text(*this));
    } catch (...) {
      // The thread ends, so it can report nothing else.
    }
  }
};
thread_local GroupOfThread group;

Refusal named(const char* function, Refusal refusal) {
  if (!refusal.text.starts_with("ccoll: "))
    refusal.text = fmt::format("ccoll: {}: {}", function, refusal.text);
  return refusal;
}

/// The job's failure, if it has failed.
std::optional<Refusal> outcome_of(const Job& job) noexcept {
  try {
    const device::Current current(job.comm->device());
    job.run();
    return std::nullopt;
  } catch (...) {
    return named(job.function, refusal_of_exception());
  }
}

/// Starts `count` threads, all or none: a few alone would wait for the others.
template <typename Body>
std::vector<std::thread> started_together(std::size_t count, Body body) {
  enum class Start { undecided, go, never };
  const auto start = std::make_shared<std::atomic<Start>>(Start::undecided);
  const auto decide = [&](Start decision) {
    start->store(decision);
    start->notify_all();
  };
  std::vector<std::thread> threads;
  threads.reserve(count);
  try {
    for (std::size_t i = 0; i < count; i++)
      threads.emplace_back([start, body, i] {
        start->wait(Start::undecided);
        if (*start == Start::go) body(i);
      });
  } catch (...) {
    decide(Start::never);
    for (auto& thread : threads) thread.join();
    refuse(ncclSystemError, "each of {} jobs needs a thread, and the system gave only {}", count,
           threads.size());
  }
  decide(Start::go);
  return threads;
}

/// The numbers of jobs by communicator: jobs of one run in their order, as on other ranks.
using Chains = std::vector<std::vector<std::size_t>>;
Chains chains_of(std::span<const Job> jobs) {
  Chains chains;
  for (std::size_t i = 0; i < jobs.size(); i++) {
    const auto chain = std::ranges::find_if(
        chains, [&](const auto& each) { return jobs[each.front()].comm == jobs[i].comm; });
    if (chain == chains.end())
      chains.push_back({i});
    else
      chain->push_back(i);
  }
  return chains;
}

/// Runs jobs of different communicators in a thread each; throws the first failure at the end.
void run_together(std::span<const Job> jobs) {
  std::vector<std::optional<Refusal>> outcomes(jobs.size());
  const auto chains = chains_of(jobs);
  const auto run = [&](std::size_t chain) {
    for (const auto i : chains[chain]) outcomes[i] = outcome_of(jobs[i]);
  };
  if (chains.size() == 1) {
    run(0);
  } else {
    auto threads = started_together(chains.size(), run);
    for (auto& thread : threads) thread.join();
  }
  for (std::size_t i = 0; i < jobs.size(); i++)
    if (outcomes[i]) jobs[i].undo();
  for (auto& outcome : outcomes)
    if (outcome) throw std::move(*outcome);
}

/// The same in threads that nobody joins: the communicators report the outcome.
void run_aside(std::span<const Job> jobs) {
  const auto own = std::make_shared<const std::vector<Job>>(jobs.begin(), jobs.end());
  const auto chains = std::make_shared<const Chains>(chains_of(jobs));
  for (const auto& job : *own) job.comm->begin_job();
  try {
    auto threads = started_together(chains->size(), [own, chains](std::size_t chain) {
      for (const auto i : (*chains)[chain]) {
        const auto& job = (*own)[i];
        if (const auto outcome = outcome_of(job)) job.comm->fail(*outcome);
        job.comm->end_job();
      }
    });
    for (auto& thread : threads) thread.detach();
  } catch (...) {
    for (const auto& job : *own) job.comm->end_job();
    throw;
  }
}

/// NCCL forbids a mixture, too.
void check_mixture(const Group& of) {
  std::size_t blocking = 0;
  for (const auto& job : of.jobs) blocking += job.comm->is_blocking();
  for (const auto& call : of.calls) blocking += call.comm->is_blocking();
  if (blocking > 0 && blocking < of.jobs.size() + of.calls.size())
    refuse(ncclInvalidArgument,
           "one group has blocking and non-blocking communicators: use a group for each kind");
}

ncclResult_t run_all() {
  if (group.failure) throw std::move(*group.failure);
  check_mixture(group);
  const auto jobs = std::exchange(group.jobs, {});
  auto calls = std::exchange(group.calls, {});
  bool goes_on = false;
  if (!jobs.empty()) {
    goes_on = !jobs.front().comm->is_blocking() && calls.empty();
    if (goes_on)
      run_aside(jobs);
    else
      run_together(jobs);
  }
  if (!calls.empty()) make(calls);
  return goes_on ? ncclInProgress : ncclSuccess;
}

/// Indexed by What.
constexpr std::string_view kOperations[] = {"all_reduce",     "broadcast",  "reduce", "all_gather",
                                            "reduce_scatter", "all_to_all", "gather", "scatter"};
static_assert(std::size(kOperations) == static_cast<std::size_t>(What::send));

/// Predicted time of the group, in µs: each communicator's calls run one after another, and the
/// communicators at once. Nothing is predicted for messages and jobs.
float predicted_us(const Group& of) {
  if (!of.jobs.empty() || std::ranges::any_of(of.calls, &Call::is_message)) return NCCL_UNDEF_FLOAT;
  std::map<const Comm*, std::chrono::duration<double, std::micro>> all;
  for (const auto& call : of.calls)
    all[call.comm.get()] += call.comm->communicator().predicted_time(
        kOperations[static_cast<std::size_t>(call.what)], call.count, call.type);
  double longest = 0;
  for (const auto& [comm, time] : all) longest = std::max(longest, time.count());
  return static_cast<float>(longest);
}

void end_simulated(ncclSimInfo_t* info) {
  if (group.depth == 0) refuse(ncclInvalidUsage, "no group was begun: call ncclGroupStart first");
  if (info != nullptr)
    read_head(info, {"simInfo", "NCCL_SIM_INFO_INITIALIZER", kSimulationMagic, sizeof *info});
  if (--group.depth > 0) return;
  const auto simulated = std::exchange(static_cast<Group&>(group), Group());
  if (simulated.failure) throw *simulated.failure;
  if (info != nullptr) info->estimatedTime = predicted_us(simulated);
}

}  // namespace

bool is_group_open() { return group.depth > 0; }

void begin_group() { group.depth++; }

ncclResult_t end_group() {
  if (group.depth == 0) refuse(ncclInvalidUsage, "no group was begun: call ncclGroupStart first");
  if (--group.depth > 0) return ncclSuccess;
  try {
    const auto result = run_all();
    group.reset();
    return result;
  } catch (...) {
    group.reset();
    throw;
  }
}

bool noted_in_group(const Call& call) {
  if (!is_group_open()) return false;
  group.calls.push_back(call);
  return true;
}

ncclResult_t note_in_group(const char* function) noexcept {
  try {
    auto refusal = named(function, refusal_of_exception());
    note(refusal.code, refusal.text);
    const auto code = refusal.code;
    if (is_group_open() && !group.failure) group.failure = std::move(refusal);
    return code;
  } catch (...) {
    return note(ncclSystemError, "ccoll: there is no memory for the error's text");
  }
}

ncclResult_t submit(Job job) {
  if (is_group_open()) {
    group.jobs.push_back(std::move(job));
    return ncclSuccess;
  }
  if (!job.comm->is_blocking()) {
    const auto meanwhile = job.meanwhile;
    run_aside({&job, 1});
    return meanwhile;
  }
  run_together({&job, 1});
  return ncclSuccess;
}

}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, GroupStart, void) {
  begin_group();
  return ncclSuccess;
}

CCOLL_NCCL_FACE(ncclResult_t, GroupEnd, void) {
  return guarded("ncclGroupEnd", [] { return end_group(); });
}

CCOLL_NCCL_FACE(ncclResult_t, GroupSimulateEnd, ncclSimInfo_t* simInfo) {
  return guarded("ncclGroupSimulateEnd", [&] {
    end_simulated(simInfo);
    return ncclSuccess;
  });
}
