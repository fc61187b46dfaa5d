// SPDX-License-Identifier: Apache-2.0
// One rank of killed_test: it dies when told to, or finds another rank's loss, continues without it
// and checks its results.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>
#include <utility>

#include "ccoll/ccoll.hpp"
#include "comm/failures/processes/killed.hpp"
#include "comm/record/tracing.hpp"
#include "support/checked_call.hpp"
#include "support/eventually.hpp"
#include "support/held.hpp"
#include "support/open_devices.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"

using namespace std::chrono_literals;

namespace ccoll {
namespace {

/// Whether this process is to be killed at a step, and after how many more steps, once known.
bool is_victim = false;
std::atomic<int> steps_left{-1};

void die_in_time() {
  if (steps_left == 0) ::raise(SIGKILL);
  if (steps_left > 0) steps_left--;
}

class Killer final : public StepObserver {
 public:
  void begins(const Signature&, std::uint64_t) override { die_in_time(); }
  void moves(std::uint16_t, Awaited, Rank) override {}
  void ran(const StepRecord&, std::size_t) override { die_in_time(); }
  void ends() override {}
};

}  // namespace

// These replace src/comm/record/tracing.cpp, which is not linked: they may kill the rank at a step
// instead of writing traces.
std::unique_ptr<Tracing> Tracing::begin(const Whose&, std::vector<std::uint32_t>) {
  return is_victim ? std::unique_ptr<Tracing>(new Tracing(nullptr)) : nullptr;
}
std::unique_ptr<StepObserver> Tracing::observer_for(const PlanRequest&, bool) {
  return std::make_unique<Killer>();
}
void Tracing::message(const Message&) {}
void Tracing::write() {}

namespace testing {
namespace {

/// Makes a call of every collective, with blocks of one line and of many.
void use(Communicator& ranks) {
  for (const auto& entry : catalogue())
    for (const std::size_t count : {std::size_t{3}, std::size_t{30'000}})
      if (!entry.by_host)
        Checked(ranks, {entry.kind, false, entry.algorithm, count}, ranks.size() - 1).run();
}

/// An error is promised within 2 s; the rest is for a busy machine.
constexpr auto kBound = 5s;

/// Connection attempts to dead ranks have been given up by then (transport/shm/visit.cpp), even on
/// a busy machine.
constexpr auto kLetGo = 20s;

/// Checks that a call fails in time because one of `lost` (ranks of the job) died; once all have
/// come, the first.
template <typename Call>
void fails_in_time(Communicator& ranks, Call call, const std::vector<int>& lost) {
  auto begun = std::chrono::steady_clock::now();
  const auto error = message_of([&] {
    ranks.barrier();
    for (;; begun = std::chrono::steady_clock::now()) call(ranks);
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  expect(took < kBound, "an error after " + std::to_string(took.count()) + " s: " + error);
  bool named = false;
  for (const int rank : lost) {
    const auto name = "rank " + std::to_string(rank);
    // The control connection reports the loss or, if it is too late, the broken link does.
    named |= error.find(name + " (") != error.npos || error.find(name + " closed") != error.npos;
  }
  expect(error.starts_with("peer_lost: ") && named, "the error names who was lost: " + error);
}

/// Forms a communicator of the survivors, in time.
void shrink(Communicator& ranks) {
  const auto begun = std::chrono::steady_clock::now();
  ranks = ranks.shrink();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  expect(took < kBound, "shrink took " + std::to_string(took.count()) + " s");
}

/// Whether its ranks are exactly these of the job, in order.
bool has_only(const Communicator& ranks, const std::vector<int>& of_the_job) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks.size(); rank++) all.push_back(ranks.job_rank(rank));
  return all == of_the_job;
}

int be_victim(Communicator& ranks, const AtStep& when) {
  ranks.barrier();  // all have joined: a death during start-up is another matter
  for (int call = 0; call < when.calls_before; call++) Checked(ranks, when.call, 0).run();
  steps_left = when.steps;
  Checked(ranks, when.call, 0).run();
  _exit(kNotReached);
}

void survive(Communicator& ranks, const Case& each) {
  const auto call = [&](Communicator& all) { Checked(all, each.at_step->call, 0).run(); };
  fails_in_time(ranks, call, {each.at_step->victim});
  shrink(ranks);
  expect(has_only(ranks, each.survivors()), "all but the victim are left");
  use(ranks);
}

/// Goes through rounds until only ranks that never die are left.
void go_through(Communicator& ranks, const Case& each, int rank) {
  std::vector<int> mortal;
  for (int other = 0; other < each.size; other++)
    if (each.dies(other)) mortal.push_back(other);
  const auto& death = each.deaths[static_cast<std::size_t>(rank)];
  bool is_doomed = death.has_value();
  for (int round = 0; !has_only(ranks, each.survivors()); round++) {
    const auto use_it = [&](Communicator& all) {
      // It is later if a round has ended before this rank's first call.
      if (is_doomed && death->round <= round && std::exchange(is_doomed, false))
        std::thread([wait = death->microseconds] {
          leave_time(std::chrono::microseconds(wait));
          ::raise(SIGKILL);
        }).detach();
      use(all);
    };
    fails_in_time(ranks, use_it, mortal);
    shrink(ranks);
  }
  use(ranks);
}

void take_part(const Case& each, const std::string& store, int rank) {
  const bool by_host =
      each.at_step &&
      find_algorithm(each.at_step->call.kind, each.at_step->call.algorithm)->by_host;
  // There are two ranks per host if the algorithm knows about hosts.
  if (by_host) setenv("CCOLL_HOST_ID", std::to_string(rank / 2).c_str(), 1);
  auto options = options_for(by_host ? "" : each.transport);
  auto ranks = Communicator::create(make_file_store(store), rank, each.size, options);
  if (!each.at_step) return go_through(ranks, each, rank);
  // A small job's own communicator opens its links ahead; in one made from it, first calls do.
  if (each.at_step->calls_before == 0) ranks = ranks.duplicate();
  if (is_victim) be_victim(ranks, *each.at_step);
  survive(ranks, each);
}

}  // namespace

int be_rank(const Case& each, const std::string& store, int rank) try {
  is_victim = each.at_step && each.dies(rank);
  // Keeps the service thread, which would otherwise end with the last communicator.
  auto alone = Communicator::create(make_inproc_store(), 0, 1);
  open_devices();
  const auto before = held_now();
  take_part(each, store, rank);
  auto after = before;
  const auto lets_go = [&] { return (after = held_now()).no_more_than(before); };
  static_cast<void>(eventually(lets_go, kLetGo));
  expect(after.no_more_than(before), "before " + before.text() + ", after " + after.text());
  return 0;
} catch (const std::exception& error) {
  std::cerr << "rank " + std::to_string(rank) + ": " + error.what() + "\n";
  return 1;
}

}  // namespace testing
}  // namespace ccoll
