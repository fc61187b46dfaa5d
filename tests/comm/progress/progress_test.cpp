// SPDX-License-Identifier: Apache-2.0
// Which thread makes progress, and its cost to the others.
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <barrier>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "support/effort.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::expect;
using testing::run_ranks;

namespace {

/// Resources that this process uses in half a second while all ranks wait.
struct Used {
  long switches = 0;
  double processor_ms = 0;
};

Used used_while_waiting() {
  testing::leave_time(200ms);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  testing::leave_time(500ms);
  getrusage(RUSAGE_SELF, &after);
  const auto ms = [](const rusage& used) {
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
           static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
  };
  return {after.ru_nvcsw - before.ru_nvcsw, ms(after) - ms(before)};
}

/// The cores on which each thread of this process may run.
std::set<std::string> cores_of_threads() {
  std::set<std::string> cores;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string line;
    std::ifstream status(task.path() / "status");
    while (std::getline(status, line))
      if (line.starts_with("Cpus_allowed_list:")) cores.insert(line);
  }
  return cores;
}

/// How often this process's service thread has slept or lost its core.
std::size_t service_switches() {
  std::size_t switches = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string line;
    std::ifstream name(task.path() / "comm");
    if (!std::getline(name, line) || line != "ccoll-service") continue;
    std::ifstream status(task.path() / "status");
    while (std::getline(status, line))
      // Involuntary switches are not its own wake-ups.
      if (line.starts_with("voluntary_ctxt_switches:")) switches += std::stoull(line.substr(24));
  }
  return switches;
}

}  // namespace

TEST_CASE("progress: asking a call again and again whether it is over wakes nobody", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name);
    CommunicatorOptions options;
    options.transport = kind.name;
    options.timeout = 20s;
    std::size_t asked = 0, switches = 0;
    const auto errors = run_ranks(2, options, [&](Communicator& world) {
      std::vector<float> data(8, 1);
      world.all_reduce(std::span(data));
      if (world.rank() == 1) {
        testing::be_late(300ms);
        return world.all_reduce(std::span(data));
      }
      auto work = world.all_reduce_async(std::span(data));
      const auto before = service_switches();
      while (!work.test()) asked++;
      switches = service_switches() - before;
      expect(data[0] == 4, fmt::format("the sum is {}", data[0]));
    });
    for (const auto& error : errors) CHECK(error == "");
    INFO(fmt::format("{} times asked, {} switches", asked, switches));
    CHECK(switches < 100);
  }
}

TEST_CASE("progress: an operation that nobody waits for goes on beside one that was asked about",
          "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name);
    CommunicatorOptions options;
    options.transport = kind.name;
    options.timeout = 20s;
    std::barrier together(3);
    const auto errors = run_ranks(3, options, [&](Communicator& world) {
      for (int round = 0; round < (testing::reduced() ? 20 : 100); round++) {
        std::vector<float> first(20'000, 1), second(3, 1);
        auto one = world.all_reduce_async(std::span(first));
        for (int times = 0; times < round % 4; times++) one.test();
        auto two = world.all_reduce_async(std::span(second));
        for (int times = 0; times < round % 3; times++) two.test();
        // Rank 0 neither waits nor polls until the others are done: its service thread continues.
        if (world.rank() != 0) two.wait();
        together.arrive_and_wait();
        two.wait();
        expect(first.back() == 3 && second[2] == 3, "a sum is wrong");
      }
    });
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("progress: several threads that wait for one communicator use hardly any processor time",
          "[comm]") {
  constexpr int kThreads = 3;
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    CAPTURE(transport);
    Used used;
    std::chrono::steady_clock::duration waited{};
    const auto errors = run_ranks(2, testing::options_for(transport), [&](Communicator& world) {
      std::array<int, kThreads> values = {1, 2, 3};
      world.barrier();
      if (world.rank() == 1) {
        used = used_while_waiting();
        testing::be_late(200ms);
        // The last comes first: each message ends one wait, whichever thread polls.
        for (int tag = kThreads; tag-- > 0;)
          world.send(std::span<const int>(&values[static_cast<std::size_t>(tag)], 1), 0, tag);
        return;
      }
      const auto threads = testing::run_threads(kThreads + 1, [&](int thread) {
        const auto start = std::chrono::steady_clock::now();
        int value = 0;
        if (thread < kThreads) {
          world.recv(std::span(&value, 1), 1, thread);
          return expect(value == thread + 1, fmt::format("thread {} got {}", thread, value));
        }
        // Its spinning ends while another thread has the flag.
        testing::be_late(50ms);
        auto probe = world.recv_async(std::span(&value, 1), 1, kThreads);
        const auto outcome = testing::message_of([&] { probe.wait(100ms); });
        waited = std::chrono::steady_clock::now() - start;
        expect(outcome.starts_with("timed_out: the operation is not over after 100 ms"), outcome);
      });
      for (const auto& error : threads) expect(error == "", error);
    });
    CHECK(errors[1] == "");
    CHECK(errors[0] == "");
    CHECK(waited < 650ms);
    CHECK(used.switches < 100);
    CHECK(used.processor_ms < 250);
  }
}

TEST_CASE("progress: a group and a thread that wait for one communicator leave the cores alone",
          "[comm]") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    CAPTURE(transport);
    Used used;
    const auto errors = run_ranks(2, testing::options_for(transport), [&](Communicator& world) {
      world.barrier();
      if (world.rank() == 1) {
        used = used_while_waiting();
        for (const int tag : {0, 1}) world.send(std::span<const int>(&tag, 1), 0, tag);
        return;
      }
      const auto threads = testing::run_threads(2, [&](int tag) {
        int value = -1;
        if (tag == 0) group_begin();
        world.recv(std::span(&value, 1), 1, tag);
        if (tag == 0) group_end();
        expect(value == tag, fmt::format("tag {} brought {}", tag, value));
      });
      for (const auto& error : threads) expect(error == "", error);
    });
    for (const auto& error : errors) CHECK(error == "");
    CHECK(used.processor_ms < 250);
  }
}

TEST_CASE("progress: who makes it in the background may run wherever the process may", "[comm]") {
  const auto before = cores_of_threads();
  REQUIRE(before.size() == 1);
  const auto errors = run_ranks(2, {}, [&](Communicator& c) {
    for (int call = 0; call < 50; call++) {
      std::vector<float> sums(1 << 16, 1.F);
      // One rank begins and then sleeps while the other has nothing under way.
      if (c.rank() == call % 2) testing::be_late(1ms);
      auto work = c.all_reduce_async(sums);
      testing::leave_time(1ms);
      work.wait();
    }
    c.barrier();
    testing::leave_time(50ms);  // nothing is under way
    expect(cores_of_threads() == before, "a thread is bound to fewer cores than the process");
  });
  for (const auto& error : errors) CHECK(error.empty());
}
