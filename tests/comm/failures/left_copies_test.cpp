// SPDX-License-Identifier: Apache-2.0
// A rank leaves a communicator that was made of another, and lives on in that one. The others may
// never have exchanged anything with it, so that no link tells them.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/ranks.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::expect;
using testing::message_of;
using testing::options_for;
using testing::run_threads;

namespace {

using Clock = std::chrono::steady_clock;

/// A call that needs rank `gone` of the copy.
struct NeedyCall {
  const char* name;
  bool is_collective;
  std::function<void(Communicator& copy, int gone)> make;
};

std::vector<NeedyCall> needy_calls(int size) {
  std::vector<NeedyCall> calls = {
      {"recv", false,
       [](Communicator& copy, int gone) {
         int value = 0;
         copy.recv(std::span(&value, 1), gone);
       }},
      {"send", false,
       [](Communicator& copy, int gone) {
         const std::vector<int> large(1 << 20);
         copy.send(std::span(large), gone);
       }},
      {"probe", false, [](Communicator& copy, int gone) { copy.probe(gone); }},
      {"barrier", true, [](Communicator& copy, int /*gone*/) { copy.barrier(); }},
      {"broadcast", true,
       [](Communicator& copy, int gone) {
         int value = 0;
         copy.broadcast(std::span(&value, 1), gone);
       }},
      {"all_reduce", true,
       [](Communicator& copy, int /*gone*/) {
         std::vector<float> values(1 << 18);
         copy.all_reduce(std::span(values));
       }},
  };
  if (size == 2)
    calls.push_back({"recv from any rank", false, [](Communicator& copy, int /*gone*/) {
                       int value = 0;
                       copy.recv(std::span(&value, 1), kAnyRank);
                     }});
  return calls;
}

struct LeftJob {
  std::string_view transport;
  int size;
  std::shared_ptr<Store> store = make_inproc_store();
};

/// Runs `body(world, job)` on each rank of all jobs at once: they spend their time waiting.
void run_left_jobs(std::vector<LeftJob> jobs,
                   const std::function<void(Communicator&, const LeftJob&)>& body) {
  std::vector<std::pair<const LeftJob*, int>> ranks;
  for (const auto& job : jobs)
    for (int rank = 0; rank < job.size; rank++) ranks.emplace_back(&job, rank);
  const auto errors = run_threads(static_cast<int>(ranks.size()), [&](int thread) {
    const auto& [job, rank] = ranks[static_cast<std::size_t>(thread)];
    auto world = Communicator::create(job->store, rank, job->size, options_for(job->transport));
    body(world, *job);
  });
  for (std::size_t i = 0; i < errors.size(); i++) {
    const auto& [job, rank] = ranks[i];
    INFO("rank " << rank << " of " << job->size << " by " << job->transport);
    CHECK(errors[i] == "");
  }
}

/// All of them are made with one time limit, which no test reaches.
constexpr std::chrono::milliseconds kCopysLimit = 60s;

/// The same ranks in the opposite order.
Communicator reversed(Communicator& world) {
  return world.split(0, -world.rank(), {.timeout = kCopysLimit}).value();
}

void expect_left(const NeedyCall& call, Communicator& copy, int gone) {
  const auto began = Clock::now();
  const auto text = message_of([&] { call.make(copy, gone); });
  // A call may have found the connection open still, and says that it broke.
  const bool names =
      text.starts_with("peer_lost: ") && text.find("rank " + std::to_string(gone)) != text.npos;
  expect(names, std::string(call.name) + ": " + text);
  expect(Clock::now() - began < 10s, std::string(call.name) + " took long: " + text);
}

}  // namespace

TEST_CASE("left copies: a call that needs who has left fails soon, though no link was open",
          "[comm]") {
  std::vector<LeftJob> jobs;
  for (const auto& kind : testing::usable_transports()) {
    jobs.push_back({kind.name, 2});
    jobs.push_back({kind.name, 4});
  }
  run_left_jobs(jobs, [](Communicator& world, const LeftJob& job) {
    const auto calls = needy_calls(job.size);
    std::vector<Communicator> copies;
    for (std::size_t i = 0; i < calls.size(); i++) copies.push_back(reversed(world));
    world.barrier();
    // In a ring of four or more, rank 0 is no neighbour of this one.
    const int gone = job.size / 2;
    if (copies[0].rank() == gone) copies.clear();
    std::vector<std::function<void()>> waits;
    for (std::size_t i = 0; i < copies.size(); i++)
      if (calls[i].is_collective || copies[i].rank() == 0)
        waits.emplace_back([&, i] { expect_left(calls[i], copies[i], gone); });
    const auto errors = run_threads(static_cast<int>(waits.size()),
                                    [&](int wait) { waits[static_cast<std::size_t>(wait)](); });
    world.barrier();
    for (const auto& error : errors) expect(error.empty(), error);
  });
}
