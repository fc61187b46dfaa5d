// SPDX-License-Identifier: Apache-2.0
// Steps in streams of several ranks leave the same memory as the team kernel's code, in whatever
// order they run, and leave every word as it was.
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "gpu/program/buffer_use.hpp"
#include "gpu/program/rank_steps.hpp"
#include "gpu/team/team_memory.hpp"
#include "kernels/device/combine.hpp"
#include "support/effort.hpp"

using namespace ccoll;
using ccoll::device::RankStep;
using ccoll::device::RankSteps;
using ccoll::device::StepPlace;
using ccoll::test::kMostBlocks;
using ccoll::test::kMostFlags;
using ccoll::test::TeamCase;
using ccoll::test::TeamMemory;
using ccoll::testing::TeamOnHost;

namespace {

device::LoweredTeam lowered(const TeamCase& of) {
  auto request = of.request();
  request.lends = false;
  request.tiny_bytes = 0;
  return device::lower(request).value();
}

/// The steps of one rank in one call.
struct Call {
  RankSteps steps;
  std::array<std::byte*, 2> buffers = {};  ///< input and output
  bool are_apart = true;
  std::array<bool, 2> lent = {};

  std::byte* buffer(StepPlace::In in) const { return buffers[number_of(in)]; }
  bool lends(const device::StepBuffer& buffer) const {
    return buffer.is_any() && lent[number_of(buffer.in)] && (are_apart || !buffer.if_separate);
  }
  static std::size_t number_of(StepPlace::In in) { return in == StepPlace::In::input ? 0 : 1; }
};

/// All ranks, each with its calls in order, and their shared memory.
class Streams {
 public:
  explicit Streams(Rank ranks) : calls_(ranks), shared_(ranks) {}

  void add(Rank rank, Call call) {
    shared_[rank].resize(std::max<std::size_t>(shared_[rank].size(), call.steps.shared_bytes));
    calls_[rank].push_back(std::move(call));
  }

  /// Runs steps in a random order that the words permit; false if none can proceed.
  bool run(std::mt19937_64& random) {
    std::vector<std::pair<std::size_t, std::size_t>> at(calls_.size());  // call, step
    for (;;) {
      std::vector<Rank> ready;
      bool over = true;
      for (Rank rank = 0; rank < calls_.size(); rank++) {
        if (at[rank].first == calls_[rank].size()) continue;
        over = false;
        const Call& call = calls_[rank][at[rank].first];
        if (may_go_on(call, call.steps.steps[at[rank].second])) ready.push_back(rank);
      }
      if (ready.empty()) return over;
      const Rank rank = ready[random() % ready.size()];
      go_on(rank, at[rank].first, at[rank].second);
      if (++at[rank].second == calls_[rank][at[rank].first].steps.steps.size())
        at[rank] = {at[rank].first + 1, 0};
    }
  }

  bool all_words_are_zero() const {
    return std::ranges::all_of(words_, [](const auto& word) { return word.second == 0; });
  }

 private:
  std::uint32_t& word(const device::StepWord& of) {
    return words_[{of.from, of.to, of.link, of.popped}];
  }
  bool may_go_on(const Call& call, const RankStep& step) {
    for (auto i = step.waits.begin; i < step.waits.end; i++) {
      if (word(call.steps.words[i]) < call.steps.words[i].value) return false;
    }
    return true;
  }
  void go_on(Rank rank, std::size_t number, std::size_t at) {
    const Call& call = calls_[rank][number];
    const RankStep& step = call.steps.steps[at];
    for (auto i = step.folds.begin; i < step.folds.end; i++) {
      const device::StepFold& fold = call.steps.folds[i];
      if (call.lends(fold.lent)) continue;
      std::vector<const std::byte*> sources;
      for (auto s = fold.sources.begin; s < fold.sources.end; s++) {
        const device::StepSource& source = call.steps.sources[s];
        // All ranks are in the same call there.
        const Call& owner = calls_[source.place.rank][number];
        sources.push_back(owner.lends(source.lent)
                              ? owner.buffer(source.lent.in) + source.lent_offset
                              : address(call, source.place));
      }
      device::combine(device::LoneThread(), call.steps.type, call.steps.op,
                      {sources.data(), static_cast<std::uint32_t>(sources.size()),
                       address(call, fold.out), fold.bytes, fold.divisor});
    }
    for (auto i = step.writes.begin; i < step.writes.end; i++)
      word(call.steps.words[i]) = call.steps.words[i].value;
  }
  std::byte* address(const Call& call, const StepPlace& place) {
    if (place.in == StepPlace::In::shared) return shared_[place.rank].data() + place.offset;
    return call.buffer(place.in) + place.offset;
  }

  std::vector<std::vector<Call>> calls_;  // by rank
  std::vector<std::vector<std::byte>> shared_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool>, std::uint32_t> words_;
};

}  // namespace

TEST_CASE("rank steps: whatever is lent, calls leave what a team leaves, in any order of ranks",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  TeamOnHost team(kMostBlocks, kMostFlags);
  const auto entries = catalogue();
  const int draws = testing::by_effort(1, 6, 200);
  for (std::size_t first = 0; first < entries.size(); first++) {
    for (int draw = 0; draw < draws; draw++) {
      const auto size = static_cast<Rank>(1 + random() % 8);
      Streams streams(size);
      std::vector<TeamMemory> expected, memory;
      std::string text;
      expected.reserve(3), memory.reserve(3);
      for (int call = 0; call < 3; call++) {
        const auto& entry = entries[call == 0 ? first : random() % entries.size()];
        const auto made = test::random_case(entry, size, random);
        text += made.text() + "; ";
        const auto program = lowered(made);
        TeamMemory& before = memory.emplace_back(made, random);
        team.run(program, expected.emplace_back(before).buffers(), 1);
        for (Rank rank = 0; rank < size; rank++) {
          streams.add(rank, {.steps = device::steps_of(program, rank).value(),
                             .buffers = {before.input(rank), before.output(rank)},
                             .are_apart = !made.in_place[rank],
                             .lent = {random() % 2 == 0, random() % 2 == 0}});
        }
      }
      CAPTURE(seed, draw, text);
      REQUIRE(streams.run(random));
      CHECK(memory == expected);
      CHECK(streams.all_words_are_zero());
    }
  }
}

TEST_CASE("rank steps: a circle is found, and a program that lends or goes by words is refused",
          "[engine][device][unit]") {
  auto made = test::case_of(Kind::all_reduce, Algorithm::ring, 2, 10, 100);
  auto circle = lowered(made);
  // Rank 0 begins by receiving, and so does rank 1 once its own first step is left out.
  for (auto& block : circle.blocks) block.steps.begin++;
  const auto found = device::steps_of(circle, 0);
  REQUIRE(!found);
  CHECK(found.error().kind == ErrorKind::internal);
  const auto lending = device::steps_of(made.lowered(), 0);
  REQUIRE(!lending);
  CHECK(lending.error().message.find("by words") != std::string::npos);
  made.tiny_bytes = 0;
  CHECK(device::steps_of(made.lowered(), 0).error().message.find("lends memory") !=
        std::string::npos);
}

TEST_CASE("rank steps: what the schedule lends of a caller's buffer is all that others may read",
          "[engine][device][unit]") {
  const auto made = test::case_of(Kind::all_gather, Algorithm::ring, 3, 10, 100);
  const auto steps = device::steps_of(lowered(made), 1).value();
  // Blocks 1 and 0 of the output, 40 bytes each; all of them are sent.
  const auto use = device::use_of_buffers(lowered(made), 1);
  CHECK(use.lendable[0].is_empty());
  CHECK(use.lendable[1].begin == 0);
  CHECK(use.lendable[1].end == 80);
  CHECK(use.used[0].end == 40);
  CHECK(use.used[1].end == 120);
  CHECK(std::ranges::all_of(steps.folds, [](const device::StepFold& fold) {
    return fold.is_to_slot == (fold.lent.in == StepPlace::In::output);
  }));
}
