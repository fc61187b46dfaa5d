// SPDX-License-Identifier: Apache-2.0
// The team kernel's code on the host leaves, bit by bit, the memory that the CPU's interpreter of
// the same schedules leaves, with any number of threads per block.
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <thread>

#include "engine/inproc_ranks.hpp"
#include "support/effort.hpp"
#include "team_exact.hpp"
#include "team_memory.hpp"

using namespace ccoll;
using ccoll::device::TeamEnding;
using ccoll::test::Exact;
using ccoll::test::kMostBlocks;
using ccoll::test::kMostFlags;
using ccoll::test::TeamCase;
using ccoll::test::TeamMemory;
using ccoll::testing::TeamOnHost;

namespace {

/// Runs the case with the CPU's interpreter.
void run_plans(const TeamCase& of, TeamMemory& memory, std::mt19937_64& random) {
  test::Links links(of.problem.size, random());
  auto plans = test::make_plans(of.problem, of.choice, of.type, links, UINT64_MAX, of.op);
  std::vector<PlanRun> runs(plans.size());
  for (Rank rank = 0; rank < plans.size(); rank++) {
    runs[rank].input.data = memory.input(rank);
    runs[rank].output.data = memory.output(rank);
    runs[rank].in_place = of.in_place[rank];
    runs[rank].block_counts = memory.view(rank).block_counts;
    runs[rank].output_counts = memory.view(rank).output_counts;
    plans[rank]->interpret_only();
    plans[rank]->start(runs[rank]);
  }
  test::run_to_end(plans, random);
}

bool all_finished(const std::vector<TeamEnding>& endings) {
  return std::ranges::count(endings, TeamEnding::finished) ==
         static_cast<std::ptrdiff_t>(endings.size());
}

/// Uses random bits: NaNs, denormals, infinities. The CPU's interpreter runs once and the team
/// `calls` times, on the state that earlier cases have left.
void compare(TeamOnHost& team, const TeamCase& of, std::uint32_t threads, int calls,
             std::mt19937_64& random) {
  const auto program = of.lowered();
  for (int call = 0; call < calls; call++) {
    TeamMemory expected(of, random);
    TeamMemory memory = expected;
    run_plans(of, expected, random);
    CHECK(all_finished(team.run(program, memory.buffers(), threads)));
    CHECK(memory == expected);
  }
}

}  // namespace

TEST_CASE("team: every algorithm leaves what the CPU's interpreter leaves, to the bit",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  TeamOnHost team(kMostBlocks, kMostFlags);
  const int draws = testing::by_effort(1, 6, 200);
  for (const auto& entry : catalogue()) {
    for (int draw = 0; draw < draws; draw++) {
      const auto made = test::random_case(entry, random);
      CAPTURE(seed, draw, made.text());
      compare(team, made, 1, 2, random);
    }
  }
}

TEST_CASE("team: so it does with blocks of several threads", "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  TeamOnHost team(kMostBlocks, kMostFlags);
  const int draws = testing::by_effort(1, 1, 40);
  for (const auto& entry : catalogue()) {
    for (int draw = 0; draw < draws; draw++) {
      // Uses few windows, because every barrier wakes all threads of a block.
      auto made = test::random_case(entry, random);
      while (made.problem.size > 4) made = test::random_case(entry, random);
      made.choice.lanes = 1;
      made.choice.slice_elems = std::max<std::uint64_t>(made.choice.slice_elems, 700);
      const auto threads = static_cast<std::uint32_t>(4 + random() % 5);
      CAPTURE(seed, draw, threads, made.text());
      compare(team, made, threads, 1, random);
    }
  }
}

TEST_CASE("team: so it does on several devices, each with memory, flags and tickets of its own",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const std::uint32_t devices = GENERATE(2U, 3U, 8U);
  TeamOnHost team(kMostBlocks, kMostFlags, devices);
  const int draws = testing::by_effort(1, 3, 100);
  for (const auto& entry : catalogue()) {
    for (int draw = 0; draw < draws; draw++) {
      auto made = test::random_case(entry, random);
      test::spread(made, devices, random);
      CAPTURE(seed, draw, made.text());
      compare(team, made, 1, 2, random);
    }
  }
  // Devices without ranks have counted all calls, too.
  for (std::uint32_t device = 1; device < devices; device++) {
    CHECK(team.tickets(device)[0].calls == team.tickets(0)[0].calls);
    CHECK(team.tickets(device)[0].base == team.tickets(0)[0].base);
  }
}

TEST_CASE("team: so it does where each device goes on to the next call by itself",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const Rank size = GENERATE(2U, 3U, 5U);
  TeamOnHost team(kMostBlocks, kMostFlags, size);
  const int rows = testing::by_effort(4, 20, 400);
  const auto entries = catalogue();
  for (int row = 0; row < rows; row++) {
    std::vector<TeamCase> cases;
    std::vector<device::LoweredTeam> programs;
    std::vector<TeamMemory> memory, expected;
    std::string text;
    for (int i = 0; i < 8; i++) {
      cases.push_back(test::random_case(entries[random() % entries.size()], size, random));
      cases.back().devices.resize(size);
      std::iota(cases.back().devices.begin(), cases.back().devices.end(), 0U);
      text += cases.back().text() + "\n";
      auto request = cases.back().request();
      request.lends = false;
      programs.push_back(device::lower(request).value());
      memory.emplace_back(cases.back(), random);
      expected.push_back(memory.back());
      run_plans(cases.back(), expected.back(), random);
    }
    std::vector<TeamOnHost::Call> calls;
    for (std::size_t i = 0; i < cases.size(); i++)
      calls.push_back({programs[i], memory[i].buffers()});
    CAPTURE(seed, row, text);
    CHECK(team.run_apart(calls, 1));
    CHECK(memory == expected);
  }
}

TEST_CASE("team: so it does whatever ranks lend in each call, and that is theirs again behind it",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const Rank size = GENERATE(2U, 3U, 5U);
  TeamOnHost team(kMostBlocks, kMostFlags, size);
  const int rows = testing::by_effort(4, 20, 400);
  const auto entries = catalogue();
  for (int row = 0; row < rows; row++) {
    constexpr std::size_t kCalls = 8;
    const std::uint32_t threads = row % 4 == 0 ? 4 : 1;
    std::vector<device::LoweredTeam> programs;
    std::vector<std::vector<TeamOnHost::Loan>> loans(kCalls);
    std::vector<TeamMemory> memory, expected;
    std::string text;
    for (std::size_t i = 0; i < kCalls; i++) {
      auto made = test::random_case(entries[random() % entries.size()], size, random);
      made.devices.resize(size);
      std::iota(made.devices.begin(), made.devices.end(), 0U);
      // Words and loans of the call before must have no effect.
      const bool lends = random() % 4 != 0;
      if (lends) made.tiny_bytes = 0;
      text += made.text() + "\n";
      auto request = made.request();
      request.lends = false;
      programs.push_back(device::lower(request).value());
      memory.emplace_back(made, random);
      expected.push_back(memory.back());
      run_plans(made, expected.back(), random);
      for (Rank rank = 0; lends && rank < size; rank++)
        loans[i].push_back({{random() % 2 == 0, random() % 2 == 0}, !made.in_place[rank]});
    }
    std::vector<TeamOnHost::Call> calls;
    std::vector<TeamMemory> left = memory;
    for (std::size_t i = 0; i < kCalls; i++) {
      calls.push_back({programs[i], memory[i].buffers(), loans[i], [&, i](std::uint32_t rank) {
                         const auto all = memory[i].all(rank);
                         std::ranges::copy(all, left[i].all(rank).begin());
                         std::ranges::fill(all, std::byte{0xee});
                       }});
    }
    CAPTURE(seed, row, threads, text);
    CHECK(team.run_apart(calls, threads));
    CHECK(left == expected);
  }
}

TEST_CASE("team: what a rank lends in a call comes into no slot", "[engine][device][unit]") {
  std::mt19937_64 random(1);
  constexpr Rank kSize = 3;
  auto made = test::case_of(Kind::all_gather, Algorithm::ring, kSize, 3000, 100);
  made.devices = {0, 1, 2};
  auto request = made.request();
  request.lends = false;
  request.tiny_bytes = 0;
  const auto program = device::lower(request).value();
  const Rank lender = GENERATE(0U, 1U, 2U, 3U);
  TeamOnHost team(kMostBlocks, kMostFlags, kSize);
  TeamMemory memory(made, random);
  TeamOnHost::Call call{program, memory.buffers(), std::vector<TeamOnHost::Loan>(kSize)};
  for (Rank rank = 0; rank < kSize; rank++)
    call.loans[rank].of[1] = rank == lender || lender == 3;  // 3: every rank lends
  CHECK(team.run_apart({call}, 1));
  for (Rank rank = 0; rank < kSize; rank++) {
    const bool is_untouched =
        std::ranges::count(team.workspace((rank + 1) % kSize), TeamOnHost::kUntouched) ==
        static_cast<std::ptrdiff_t>(team.workspace().size());
    CHECK(is_untouched == call.loans[rank].of[1]);
  }
}

TEST_CASE("team: sums that no order can change are right by every algorithm",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  TeamOnHost team(kMostBlocks, kMostFlags);
  const int draws = testing::by_effort(1, 4, 100);
  for (const auto& entry : catalogue()) {
    if (entry.kind == Kind::barrier) continue;
    for (int draw = 0; draw < draws; draw++) {
      const auto made = test::random_case(entry, random);
      CAPTURE(seed, draw, made.text());
      TeamMemory memory(made, random);
      Exact exact(made);
      exact.fill(memory);
      CHECK(all_finished(team.run(made.lowered(), memory.buffers(), 1)));
      CHECK(exact.count_wrong(memory) == 0);
    }
  }
}

TEST_CASE("team: a program is replayed without anything set from outside", "[engine][device]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  auto made = test::case_of(Kind::all_reduce, Algorithm::ring, 4, 300, 20);
  made.in_place[1] = true;
  TeamOnHost team(kMostBlocks, kMostFlags);
  const auto program = made.lowered();
  TeamMemory memory(made, random);
  Exact exact(made);
  const int calls = testing::by_effort(20, 50, 2'000);
  for (int call = 1; call <= calls; call++) {
    exact.fill(memory);
    REQUIRE(all_finished(team.run(program, memory.buffers(), 1)));
    REQUIRE(exact.count_wrong(memory) == 0);
    for (const auto& progress : std::span(team.progress()).first(program.blocks.size()))
      REQUIRE(progress.call == static_cast<std::uint64_t>(call));
    // Words of blocks outside this program advance, too: another program may have those blocks.
    for (const auto& ticket : team.tickets()) {
      REQUIRE(ticket.calls == static_cast<std::uint64_t>(call));
      REQUIRE(ticket.base == static_cast<std::uint64_t>(call) * program.program.span);
    }
  }
}

TEST_CASE("team: an abort ends every block, and the next call needs no reset",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const std::uint32_t devices = GENERATE(1U, 3U);
  TeamOnHost team(kMostBlocks, kMostFlags, devices);
  const int rounds = testing::by_effort(4, 10, 400);
  int aborted = 0;
  for (int round = 0; round < rounds; round++) {
    const auto entries = catalogue();
    auto made = test::random_case(entries[random() % entries.size()], random);
    test::spread(made, devices, random);
    auto broken = made.lowered();
    CAPTURE(seed, round, made.text());
    if (broken.blocks.empty()) continue;
    // One block does half of its steps: a block that waits for it waits for ever.
    auto& idle = broken.blocks[random() % broken.blocks.size()];
    idle.steps.end = idle.steps.begin + (idle.steps.end - idle.steps.begin) / 2;
    TeamMemory memory(made, random);
    std::vector<TeamEnding> endings;
    {
      const auto threads = round % 4 == 0 ? 4U : 1U;
      std::jthread call([&] { endings = team.run(broken, memory.buffers(), threads); });
      std::this_thread::sleep_for(std::chrono::milliseconds(round % 5));
      team.abort();
    }
    for (const auto ending : endings) CHECK(ending != TeamEnding::none);
    aborted += all_finished(endings) ? 0 : 1;
    team.forget_abort();
    compare(team, made, 1, 1, random);
  }
  CHECK(aborted > 0);
}

TEST_CASE("team: what is aborted before it runs writes nothing", "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  TeamOnHost team(kMostBlocks, kMostFlags);
  for (const auto& entry : catalogue()) {
    const auto made = test::random_case(entry, random);
    CAPTURE(seed, made.text());
    TeamMemory memory(made, random);
    const TeamMemory before = memory;
    team.abort();
    const auto endings = team.run(made.lowered(), memory.buffers(), random() % 4 == 0 ? 4 : 1);
    CHECK(std::ranges::count(endings, TeamEnding::none) == 0);
    CHECK(memory == before);
    team.forget_abort();
    compare(team, made, 1, 1, random);
  }
}

namespace {

/// Concurrent calls, each with its own program and data.
struct Rivals {
  explicit Rivals(std::size_t count, std::mt19937_64& random) {
    const auto entries = catalogue();
    while (calls.size() < count) {
      auto made = test::random_case(entries[random() % entries.size()], random);
      if (made.lowered().blocks.empty()) continue;
      expected.emplace_back(made, random);
      memory.push_back(expected.back());
      run_plans(made, expected.back(), random);
      calls.push_back({made, made.lowered()});
    }
    endings.resize(count);
  }
  std::uint64_t workspace_bytes() const {
    std::uint64_t most = 0;
    for (const auto& call : calls) most = std::max(most, call.lowered.workspace_bytes);
    return most;
  }
  void run(TeamOnHost& team, std::size_t i, std::uint32_t threads) {
    endings[i] = team.run_beside(calls[i].lowered, memory[i].buffers(), i + 1, threads);
  }

  struct Call {
    TeamCase made;
    device::LoweredTeam lowered;
  };
  std::vector<Call> calls;
  std::vector<TeamMemory> memory, expected;
  std::vector<std::vector<TeamEnding>> endings;
};

bool is_unclaimed(const TeamOnHost& team) {
  return team.claim().owner == 0 && team.claim().gone == 0;
}

/// The first has found another call running and written nothing, and none has the team.
void check_met_another(const TeamOnHost& team, const Rivals& rivals, const TeamMemory& before) {
  CHECK(team.was_busy());
  CHECK(std::ranges::count(rivals.endings[0], TeamEnding::aborted) ==
        static_cast<std::ptrdiff_t>(rivals.endings[0].size()));
  CHECK(rivals.memory[0] == before);
  CHECK(is_unclaimed(team));
}

}  // namespace

TEST_CASE("team: of calls at once each is whole, or it is told that the team was busy",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  TeamOnHost team(kMostBlocks, kMostFlags);
  const int rounds = testing::by_effort(10, 40, 1'000);
  int busy = 0;
  for (int round = 0; round < rounds; round++) {
    CAPTURE(seed, round);
    Rivals rivals(2 + random() % 2, random);
    team.share_workspace(rivals.workspace_bytes());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < rivals.calls.size(); i++) {
        threads.emplace_back(
            [&, i, of_block = round % 4 == 0 ? 4U : 1U] { rivals.run(team, i, of_block); });
      }
    }
    for (std::size_t i = 0; i < rivals.calls.size(); i++) {
      CAPTURE(i, rivals.calls[i].made.text());
      CHECK(std::ranges::count(rivals.endings[i], TeamEnding::none) == 0);
      const bool is_whole = all_finished(rivals.endings[i]);
      CHECK((is_whole || team.was_busy()));
      if (is_whole) CHECK(rivals.memory[i] == rivals.expected[i]);
    }
    busy += team.was_busy() ? 1 : 0;
    // Only the flag that reports the meeting is reset.
    CHECK(is_unclaimed(team));
    team.forget_abort();
    compare(team, rivals.calls[0].made, 1, 1, random);
  }
  CHECK(busy > 0);
}

TEST_CASE("team: a call that finds another one under way ends both, and writes nothing",
          "[engine][device]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  TeamOnHost team(kMostBlocks, kMostFlags);
  const int rounds = testing::by_effort(3, 10, 200);
  for (int round = 0; round < rounds; round++) {
    CAPTURE(seed, round);
    Rivals rivals(2, random);
    // A block of the first call does nothing: the call waits until it is ended.
    const auto first = test::case_of(Kind::all_reduce, Algorithm::ring, 4, 300, 20);
    auto endless = first.lowered();
    endless.blocks[1].steps.end = endless.blocks[1].steps.begin;
    TeamMemory data(first, random);
    team.share_workspace(std::max(rivals.workspace_bytes(), endless.workspace_bytes));
    const TeamMemory before = rivals.memory[0];
    std::vector<TeamEnding> endings;
    {
      std::jthread call([&] { endings = team.run_beside(endless, data.buffers(), 7, 1); });
      while (device::load_acquire(&team.claim().owner) == 0) std::this_thread::yield();
      rivals.run(team, 0, round % 2 == 0 ? 4 : 1);
    }
    check_met_another(team, rivals, before);
    CHECK_FALSE(all_finished(endings));
    team.forget_abort();
    compare(team, first, 1, 1, random);
  }
}

TEST_CASE("team: a call by copies and another one beside it are found out, and wait for nobody",
          "[engine][device]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  TeamOnHost team(kMostBlocks, kMostFlags);
  const int rounds = testing::by_effort(5, 20, 500);
  for (int round = 0; round < rounds; round++) {
    CAPTURE(seed, round);
    Rivals rivals(1, random);
    const TeamMemory before = rivals.memory[0];
    team.share_workspace(rivals.workspace_bytes());
    const auto first = team.copies(7), second = team.copies(8);
    // They succeed one behind another.
    for (const auto& each : {first, second}) {
      begin_copies(each);
      end_copies(each);
    }
    CHECK_FALSE(team.was_busy());

    begin_copies(first);
    if (round % 3 == 0) {
      begin_copies(second);
      CHECK(team.was_busy());
      // Any call that comes next may be the first to claim it.
      if (round % 2 == 0) end_copies(second);
      CHECK(team.claim().owner != 0);
    }
    // A kernel then has the team, and the copies never finish.
    rivals.run(team, 0, round % 2 == 0 ? 4 : 1);
    check_met_another(team, rivals, before);
    end_copies(first);
    end_copies(second);
    CHECK(is_unclaimed(team));
    team.forget_abort();
    compare(team, rivals.calls[0].made, 1, 1, random);
  }
}
