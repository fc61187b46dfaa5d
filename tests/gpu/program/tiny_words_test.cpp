// SPDX-License-Identifier: Apache-2.0
// Words of tiny slices: which programs use them, that no word is torn, and that none passes for
// another call's.
#include <catch2/catch.hpp>
#include <chrono>
#include <limits>
#include <numeric>
#include <thread>

#include "gpu/kernel/interpret.hpp"
#include "gpu/team/team_exact.hpp"
#include "gpu/team/team_memory.hpp"
#include "gpu/team/word_hammer.hpp"
#include "kernels/device/host_block.hpp"
#include "support/effort.hpp"

using namespace ccoll;
using namespace ccoll::device;
using ccoll::test::Exact;
using ccoll::test::TeamCase;
using ccoll::test::TeamMemory;
using ccoll::testing::TeamOnHost;

namespace {

/// A call of one window.
TeamCase make_case(Kind kind, Algorithm algorithm, Rank size, std::uint64_t count) {
  return test::case_of(kind, algorithm, size, count, 1 << 20);
}

bool is_by_words(const TeamCase& made) { return made.lowered().program.by_words; }

}  // namespace

TEST_CASE("tiny words: a program goes by them up to so many bytes for a channel",
          "[engine][device][unit]") {
  constexpr std::uint64_t kMost = kTinyBytes / 4;
  CHECK(is_by_words(make_case(Kind::all_reduce, Algorithm::one_shot, 4, 2)));
  CHECK(is_by_words(make_case(Kind::all_reduce, Algorithm::one_shot, 4, kMost)));
  CHECK_FALSE(is_by_words(make_case(Kind::all_reduce, Algorithm::one_shot, 4, kMost + 1)));
  // The six slices of a ring's channel count together.
  CHECK(is_by_words(make_case(Kind::all_reduce, Algorithm::ring, 4, kMost / 6 * 4)));
  CHECK_FALSE(is_by_words(make_case(Kind::all_reduce, Algorithm::ring, 4, kMost / 6 * 4 + 40)));
  // This many channels need too much memory.
  CHECK(is_by_words(make_case(Kind::all_reduce, Algorithm::one_shot, 8, kMost)));
  CHECK_FALSE(is_by_words(make_case(Kind::all_reduce, Algorithm::one_shot, 16, kMost)));
  CHECK(is_by_words(make_case(Kind::all_reduce, Algorithm::one_shot, 16, kMost / 8)));
  // Several windows may have many slices.
  auto windows = make_case(Kind::all_reduce, Algorithm::one_shot, 4, 100);
  windows.choice.slice_elems = 60;
  CHECK_FALSE(is_by_words(windows));
  windows.choice.lanes = 2;
  CHECK(is_by_words(windows));
  // The limit applies to a rank that sends nothing, too.
  CHECK_FALSE(is_by_words(make_case(Kind::all_reduce, Algorithm::one_shot, 1, kMost + 1)));
  CHECK(make_case(Kind::all_reduce, Algorithm::one_shot, 4, 2).lowered().program.useful_threads ==
        1);
  CHECK(
      make_case(Kind::all_reduce, Algorithm::one_shot, 4, kMost).lowered().program.useful_threads ==
      kMost / 2);
  auto never = make_case(Kind::all_reduce, Algorithm::one_shot, 4, 2);
  never.tiny_bytes = 0;
  CHECK_FALSE(is_by_words(never));
}

TEST_CASE(
    "tiny words: lanes that share memory are ordered by flags, are one block, or do not go by "
    "words",
    "[engine][device][unit]") {
  // In place, the result overwrites the input, which the other lane has sent.
  auto one_shot = make_case(Kind::all_reduce, Algorithm::one_shot, 4, 2);
  CHECK(one_shot.lowered().blocks.size() == 4);
  one_shot.in_place.assign(4, true);
  CHECK(is_by_words(one_shot));
  CHECK(one_shot.lowered().blocks.size() == 4);
  for (const auto& block : one_shot.lowered().blocks) CHECK_FALSE(block.awaited);
  // Here only messages show that another rank has read the overwritten data.
  auto two_shot = make_case(Kind::all_reduce, Algorithm::two_shot, 4, 8);
  CHECK(is_by_words(two_shot));
  two_shot.in_place[2] = true;
  CHECK_FALSE(is_by_words(two_shot));
  // A rank never sends its own block, and writes nothing else.
  auto scatter = make_case(Kind::reduce_scatter, Algorithm::one_shot, 4, 8);
  scatter.in_place.assign(4, true);
  CHECK(is_by_words(scatter));
}

TEST_CASE("tiny words: a program that goes by them in place on all ranks does so on any",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  int by_words = 0;
  for (const auto& entry : catalogue()) {
    if (!may_be_in_place(entry.kind)) continue;
    for (int draw = 0; draw < testing::by_effort(10, 40, 400); draw++) {
      auto made = test::random_case(entry, random);
      auto in_place = made;
      in_place.in_place.assign(made.problem.size, true);
      CAPTURE(seed, draw, made.text());
      const auto all = in_place.lowered();
      CHECK(all.in_place);
      CHECK(made.lowered().in_place == (std::ranges::count(made.in_place, false) == 0));
      if (!all.program.by_words) continue;
      by_words++;
      CHECK(is_by_words(made));
    }
  }
  CHECK(by_words > 0);
}

TEST_CASE("tiny words: an all_reduce of them writes no flag", "[engine][device][unit]") {
  std::mt19937_64 random(1);
  TeamOnHost team(test::kMostBlocks, test::kMostFlags);
  auto made = make_case(Kind::all_reduce, Algorithm::one_shot, 4, 2);
  made.in_place.assign(4, true);
  const auto run = [&] {
    TeamMemory memory(made, random);
    Exact exact(made);
    exact.fill(memory);
    team.run(made.lowered(), memory.buffers(), 4);
    CHECK(exact.count_wrong(memory) == 0);
    return std::ranges::count_if(team.flags(), [](std::uint64_t flag) { return flag != 0; });
  };
  CHECK(run() == 0);
  made.tiny_bytes = 0;
  // Each channel has slices pushed and popped, and each sending block one more.
  CHECK(run() == 2 * 12 + 4);
}

TEST_CASE("tiny words: both ends of a slice name the same words, which no other slice has",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  int by_words = 0;
  for (const auto& entry : catalogue()) {
    for (int draw = 0; draw < testing::by_effort(10, 40, 400); draw++) {
      auto made = test::random_case(entry, random);
      test::spread(made, 1 + static_cast<std::uint32_t>(random() % 3), random);
      const auto team = made.lowered();
      CAPTURE(seed, draw, made.text());
      if (!team.program.by_words) continue;
      by_words++;
      CHECK(team.program.windows <= team.program.stripes);
      // By device: for each word, its channel and slice.
      std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> writers(kMostTeamDevices),
          readers(kMostTeamDevices);
      for (auto& each : writers) each.resize(kTinyWords, {kNone, 0});
      readers = writers;
      std::vector<std::uint32_t> sent(team.channels.size()), received(team.channels.size());
      for (const auto& block : team.blocks) {
        for (auto s = block.steps.begin; s < block.steps.end; s++) {
          const auto& step = team.steps[s];
          CHECK_FALSE(step.lends);
          std::uint64_t bytes = 0;
          const auto layout = step.has_local() ? step.local : step.store;
          for (auto i = layout.begin; i < layout.end; i++)
            bytes += team.program.bytes_of(team.parts[i], block.stripe);
          const auto mark = [&](Range ends, auto& counts, auto& words) {
            for (auto i = ends.begin; i < ends.end; i++) {
              const auto& end = team.ends[i];
              const std::pair<std::uint32_t, std::uint32_t> slice(end.channel,
                                                                  counts[end.channel]++);
              for (std::uint64_t word = 0; word < tiny_words_of(bytes); word++) {
                auto& place = words[team.channels[end.channel].to].at(end.words + word);
                CHECK(place.first == kNone);
                place = slice;
              }
            }
          };
          mark(step.sends, sent, writers);
          mark(step.receives, received, readers);
        }
      }
      CHECK(writers == readers);
    }
  }
  CHECK(by_words > 0);
}

TEST_CASE("tiny words: none is torn", "[engine][device][stress]") {
  std::vector<std::uint64_t> words(64, test::hammered_word(0));
  std::uint64_t torn = 0, changes = 0;
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(testing::by_effort(200, 1000, 5000));
  // If other programs occupy the cores, writer and readers may take longer to meet.
  while (std::chrono::steady_clock::now() < end ||
         (changes <= 100 && std::chrono::steady_clock::now() < end + std::chrono::minutes(1))) {
    const test::WordHammer with{words.data(), static_cast<std::uint32_t>(words.size()), 2000, &torn,
                                &changes};
    std::vector<std::jthread> blocks;
    for (std::uint32_t number = 0; number < 3; number++)
      blocks.emplace_back([&with, number] { test::hammer(LoneThread(), number, with); });
  }
  CHECK(torn == 0);
  CHECK(changes > 100);
}

TEST_CASE(
    "tiny words: each in a call's set was written by one of the calls that its number tells from "
    "it",
    "[engine][device][unit]") {
  // The full 64-bit number of the call that wrote each word.
  std::vector<std::uint64_t> written(kTeamWords);
  std::uint64_t oldest = 0;
  for (std::uint64_t call = 1; call < 6 * kTinyWords; call++) {
    written[aged_tiny_word(call)] = call;
    REQUIRE(aged_tiny_word(call) / kTinyWords != tiny_set(call) / kTinyWords);
    // A call's own words are younger. Only the ends of each turn of a set are checked.
    if (call % kTinyWords > 1 && call % kTinyWords + 2 < kTinyWords) continue;
    for (std::uint64_t word = 0; word < kTinyWords; word++)
      oldest = std::max(oldest, call - written[tiny_set(call) + word]);
  }
  CHECK(oldest <= 2 * kTinyWords);
  CHECK(2 * kTinyWords < std::uint64_t{1} << 32);
  // Zeroed memory reads as of call 0, which does not exist, until it is too old for that.
  CHECK(is_of_call(0, 0));
  CHECK_FALSE(is_of_call(0, 2 * kTinyWords));
}

TEST_CASE(
    "tiny words: every call writes one of those that are not in use, also where it is aborted",
    "[engine][device]") {
  std::mt19937_64 random(1);
  TeamOnHost team(test::kMostBlocks, test::kMostFlags, 2);
  auto made = make_case(Kind::all_reduce, Algorithm::one_shot, 3, 2);
  made.devices = {0, 1, 0};
  const auto program = made.lowered();
  for (const std::uint64_t before : {std::uint64_t{0}, kTinyWords - 3, 2 * kTinyWords - 3}) {
    team.start_behind(before, random);
    for (std::uint64_t call = before + 1; call < before + 6; call++) {
      if (call % 2 == 0) team.abort();
      TeamMemory memory(made, random);
      team.run(program, memory.buffers(), 1);
      team.forget_abort();
      for (const std::size_t device : {0, 1}) {
        CAPTURE(call, device);
        CHECK(team.words(device)[aged_tiny_word(call)] == tiny_word(call, 0));
      }
    }
  }
}

TEST_CASE("tiny words: calls are told apart where their number's bits begin anew",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  constexpr std::uint64_t kWrap = std::uint64_t{1} << 32;
  const std::uint32_t devices = GENERATE(1U, 2U);
  TeamOnHost team(test::kMostBlocks, test::kMostFlags, devices);
  for (const std::uint64_t at : {kTinyWords, kWrap, kWrap + kTinyWords, 7 * kWrap}) {
    for (int round = 0; round < testing::by_effort(1, 3, 30); round++) {
      // All words are as old as earlier calls may have left them.
      team.start_behind(at - 4, random);
      for (int call = 0; call < 8; call++) {
        auto made = make_case(Kind::all_reduce, Algorithm::one_shot, 4, 1 + random() % 40);
        test::spread(made, devices, random);
        const auto program = made.lowered();
        REQUIRE(program.program.by_words);
        TeamMemory memory(made, random);
        Exact exact(made);
        exact.fill(memory);
        CAPTURE(seed, at, round, call);
        team.run(program, memory.buffers(), call % 4 == 0 ? 4 : 1);
        CHECK(exact.count_wrong(memory) == 0);
        CHECK(team.tickets()[0].calls == at - 4 + static_cast<std::uint64_t>(call) + 1);
      }
    }
  }
}

TEST_CASE("tiny words: calls are told apart by devices each of which begins them by itself",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  constexpr std::uint64_t kWrap = std::uint64_t{1} << 32;
  const std::uint32_t devices = GENERATE(2U, 3U);
  TeamOnHost team(test::kMostBlocks, test::kMostFlags, devices);
  for (const std::uint64_t at : {std::uint64_t{4}, kTinyWords, kWrap, kWrap + kTinyWords}) {
    for (int round = 0; round < testing::by_effort(2, 5, 50); round++) {
      team.start_behind(at - 4, random);
      std::vector<LoweredTeam> programs;
      std::vector<TeamMemory> memory;
      std::vector<Exact> exact;
      for (int call = 0; call < 8; call++) {
        auto made = make_case(Kind::all_reduce, Algorithm::one_shot, devices, 1 + random() % 40);
        made.devices.resize(devices);
        std::iota(made.devices.begin(), made.devices.end(), 0U);
        programs.push_back(made.lowered());
        REQUIRE(programs.back().program.by_words);
        exact.emplace_back(made).fill(memory.emplace_back(made, random));
      }
      std::vector<TeamOnHost::Call> calls;
      for (std::size_t i = 0; i < programs.size(); i++)
        calls.push_back({programs[i], memory[i].buffers()});
      CAPTURE(seed, devices, at, round);
      CHECK(team.run_apart(calls, 1));
      for (std::size_t i = 0; i < calls.size(); i++) CHECK(exact[i].count_wrong(memory[i]) == 0);
    }
  }
}
