// SPDX-License-Identifier: Apache-2.0
// Checks the interpreter against the verifier's proofs: all ranks' plans run in one thread over
// real in-process links, in random order, and their steps are replayed symbolically.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "inproc_ranks.hpp"
#include "support/effort.hpp"
#include "support/hosts.hpp"
#include "verify/replay.hpp"

using namespace ccoll;

namespace {

Problem make_problem(Kind kind, Rank size, Rank root, std::uint64_t count) {
  Problem problem;
  problem.kind = kind;
  problem.size = size;
  problem.root = root;
  problem.count = count;
  return problem;
}

struct Case {
  const CatalogueEntry* entry;
  Problem problem;
  Choice choice;
};

Case random_case(std::mt19937_64& random) {
  const auto entries = catalogue();
  Case made{&entries[random() % entries.size()], {}, {}};
  made.problem.kind = made.entry->kind;
  made.problem.size = static_cast<Rank>(1 + random() % 9);
  made.problem.root = static_cast<Rank>(random() % made.problem.size);
  made.problem.count = made.entry->kind == Kind::barrier ? 1 : random() % 40;
  if (made.entry->by_host) made.problem.host_of = testing::random_hosts(made.problem.size, random);
  if (made.entry->ragged && random() % 2 == 0) {
    const std::size_t n = made.problem.size;
    for (std::size_t i = 0; i < (made.entry->kind == Kind::all_to_all ? n * n : n); i++)
      made.problem.block_counts.push_back(random() % 12);
  }
  made.choice.algorithm = made.entry->algorithm;
  made.choice.lanes = static_cast<std::uint16_t>(1 + random() % 3);
  made.choice.slice_elems = 1 + random() % 7;
  return made;
}

/// Records the steps that ran.
class Keeper final : public StepObserver {
 public:
  explicit Keeper(std::vector<StepRecord>& records) : records_(records) {}
  void begins(const Signature& /*signature*/, std::uint64_t /*sequence*/) override {}
  void moves(std::uint16_t /*lane*/, Awaited /*what*/, Rank /*peer*/) override {}
  void ran(const StepRecord& step, std::size_t /*bytes*/) override { records_.push_back(step); }
  void ends() override {}

 private:
  std::vector<StepRecord>& records_;
};

/// Runs all ranks' plans once; returns their steps, in order.
std::vector<StepRecord> run(test::Plans& plans, std::mt19937_64& random, std::uint64_t sequence) {
  std::vector<std::vector<std::byte>> inputs, outputs;
  std::vector<StepRecord> records;
  std::vector<PlanRun> runs(plans.size());
  for (std::size_t rank = 0; rank < plans.size(); rank++) {
    inputs.emplace_back(4096, std::byte{1});
    outputs.emplace_back(4096);
    runs[rank].input.data = inputs.back().data();
    runs[rank].output.data = outputs.back().data();
    runs[rank].sequence = sequence;
    plans[rank]->observe(std::make_unique<Keeper>(records));
    plans[rank]->start(runs[rank]);
  }
  test::run_to_end(plans, random);
  return records;
}

/// Stops a thread at any point until it is resumed.
class Interruption {
 public:
  explicit Interruption(pthread_t thread) {
    stopped_ = may_go_on_ = false;
    struct sigaction action {};
    action.sa_handler = [](int) {
      stopped_ = true;
      while (!may_go_on_) continue;
    };
    sigaction(SIGUSR1, &action, &before_);
    pthread_kill(thread, SIGUSR1);
    while (!stopped_) std::this_thread::yield();
  }
  ~Interruption() {
    may_go_on_ = true;
    sigaction(SIGUSR1, &before_, nullptr);
  }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  static inline std::atomic<bool> stopped_, may_go_on_;
  struct sigaction before_ {};
};

}  // namespace

TEST_CASE("plan: what the engine does is what the verifier has proven", "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const int cases = testing::by_effort(1'000, 1'000, 20'000);
  for (int i = 0; i < cases; i++) {
    const auto made = random_case(random);
    CAPTURE(seed, i, to_string(made.problem.kind), to_string(made.choice.algorithm),
            made.problem.size, made.problem.root, made.problem.count, made.choice.lanes,
            made.choice.slice_elems);
    test::Links links(made.problem.size, random());
    auto plans = test::make_plans(made.problem, made.choice, DataType::uint8, links);
    const auto schedule = [&](Rank rank) { return make_program(made.problem, made.choice, rank); };
    for (std::uint64_t call = 0; call < 2; call++) {
      const auto records = run(plans, random, call);
      const auto report = replay(made.problem, made.choice, schedule, records, 2 * kLinkSlots);
      CHECK(report.text() == "");
    }
  }
}

TEST_CASE("plan: short calls do what the interpreter does, to the bit", "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const int cases = testing::by_effort(300, 1'000, 20'000);
  int runs = 0, short_runs = 0;
  for (int i = 0; i < cases; i++) {
    auto made = random_case(random);
    made.problem.block_counts.clear();
    made.choice.slice_elems = 64;  // one window
    CAPTURE(seed, i, to_string(made.problem.kind), to_string(made.choice.algorithm),
            made.problem.size, made.problem.root, made.problem.count, made.choice.lanes);
    std::vector<float> input(4096);
    for (auto& value : input) value = std::uniform_real_distribution<float>(-1, 1)(random);
    const bool in_place = random() % 2 == 0 && made.problem.kind == Kind::all_reduce;
    const auto carry_out = [&](bool interpret_only) {
      test::Links links(made.problem.size, random());
      // Writing past the caches must not change the result.
      auto plans = test::make_plans(made.problem, made.choice, DataType::float32, links,
                                    interpret_only ? 0 : UINT64_MAX);
      std::vector<StepRecord> records;
      std::vector<std::vector<float>> buffers;
      std::vector<PlanRun> calls(plans.size());
      for (std::size_t rank = 0; rank < plans.size(); rank++) {
        auto& buffer = buffers.emplace_back(input);
        std::rotate(buffer.begin(), buffer.begin() + 3 * static_cast<int>(rank), buffer.end());
        calls[rank].input.data = reinterpret_cast<std::byte*>(buffer.data());
        calls[rank].output.data = calls[rank].input.data + (in_place ? 0 : 2048 * sizeof(float));
        calls[rank].in_place = in_place;
        if (interpret_only) plans[rank]->interpret_only();
        plans[rank]->observe(std::make_unique<Keeper>(records));
        plans[rank]->start(calls[rank]);
        short_runs += plans[rank]->is_short() ? 1 : 0;
      }
      test::run_to_end(plans, random);
      // Ranks and lanes interleave freely; each runs its steps in order.
      std::ranges::stable_sort(records, {}, [](const StepRecord& record) {
        return std::pair(record.rank, record.lane);
      });
      return std::pair(std::move(buffers), std::move(records));
    };
    const auto [buffers, records] = carry_out(false);
    if (made.problem.count > 0) runs += static_cast<int>(made.problem.size);
    const auto [expected_buffers, expected_records] = carry_out(true);
    CHECK(records == expected_records);
    bool same = true;
    for (std::size_t rank = 0; rank < buffers.size(); rank++)
      same &= std::memcmp(buffers[rank].data(), expected_buffers[rank].data(),
                          buffers[rank].size() * sizeof(float)) == 0;
    CHECK(same);
  }
  // All but those whose blocks are separate in memory.
  CHECK(short_runs > runs / 2);
}

TEST_CASE("plan: who has taken all may leave at once", "[engine]") {
  constexpr std::size_t kCount = 2000;  // with fewer, the receiver gets a copy
  const auto whole = make_problem(Kind::broadcast, 2, 0, kCount);
  const Choice choice{.algorithm = Algorithm::linear, .slice_elems = kCount};
  std::string error;
  // The sender polls in a loop; it must be stoppable between any two polls.
  const int rounds = testing::by_effort(100, 100, 5'000);
  for (int round = 0; round < rounds && error.empty(); round++) {
    test::Links links(2, 77);
    auto plans = test::make_plans(whole, choice, DataType::float32, links);
    std::vector<float> from(kCount), to(kCount);
    PlanRun sends, receives;
    sends.input.data = sends.output.data = reinterpret_cast<std::byte*>(from.data());
    receives.input.data = receives.output.data = reinterpret_cast<std::byte*>(to.data());
    std::atomic<int> looks = 0;
    std::thread sender([&] {
      plans[0]->start(sends);
      for (; !plans[0]->done() && error.empty(); looks++)
        if (const auto moved = plans[0]->advance(); !moved) error = moved.error().message;
    });
    while (looks < 3) std::this_thread::yield();
    {
      const Interruption interruption(sender.native_handle());
      plans[1]->start(receives);
      while (!plans[1]->done() && plans[1]->advance()) continue;
      plans[1].reset();
      links.leave(1);
    }
    sender.join();
  }
  CHECK(error == "");
}

TEST_CASE("plan: a replay notices steps that are missing, repeated or out of order",
          "[engine][property]") {
  std::mt19937_64 random(1);
  const auto problem = make_problem(Kind::all_reduce, 3, 0, 9);
  Choice choice{Algorithm::ring, 1, 2};
  test::Links links(3, 99);
  auto plans = test::make_plans(problem, choice, DataType::uint8, links);
  const auto schedule = [&](Rank rank) { return make_program(problem, choice, rank); };
  const auto good = run(plans, random, 0);
  REQUIRE(replay(problem, choice, schedule, good, 8).ok());
  for (std::size_t i = 0; i < good.size(); i++) {
    auto missing = good;
    missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK_FALSE(replay(problem, choice, schedule, missing, 8).ok());
    auto repeated = good;
    repeated.insert(repeated.begin() + static_cast<std::ptrdiff_t>(i), good[i]);
    CHECK_FALSE(replay(problem, choice, schedule, repeated, 8).ok());
  }
  auto reversed = good;
  std::reverse(reversed.begin(), reversed.end());
  CHECK_FALSE(replay(problem, choice, schedule, reversed, 8).ok());
}

TEST_CASE("plan: no schedule needs more slots than a link has", "[engine][property]") {
  for (const auto& entry : catalogue()) {
    for (Rank size = 1; size <= 9; size++) {
      auto problem = make_problem(entry.kind, size, size / 2, entry.kind == Kind::barrier ? 1 : 40);
      problem.host_of = testing::host_layouts(entry, size).back();
      const Choice choice{entry.algorithm, 2, 3};
      const auto report =
          verify(problem, choice, [&](Rank rank) { return make_program(problem, choice, rank); });
      CAPTURE(to_string(entry.kind), to_string(entry.algorithm), size);
      CHECK(report.text() == "");
      CHECK(report.slots_needed <= kLinkSlots);
    }
  }
}
