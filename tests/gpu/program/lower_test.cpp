// SPDX-License-Identifier: Apache-2.0
// Lowering schedules to the team kernel's programs: the memory that each step uses.
#include <catch2/catch.hpp>

#include "gpu/team/team_case.hpp"
#include "support/effort.hpp"
#include "verify/verify.hpp"

using namespace ccoll;
using namespace ccoll::device;
using ccoll::test::case_of;
using ccoll::test::TeamCase;

namespace {

/// The slots that are used at all, in bytes.
std::uint64_t slot_bytes(const LoweredTeam& team) {
  std::uint64_t bytes = 0;
  for (const auto& channel : team.channels) bytes += channel.slot_bytes;
  return bytes;
}

}  // namespace

TEST_CASE("lower: a gathered slice is read where it lies, and copied where it may be overwritten",
          "[engine][device][unit]") {
  auto made = case_of(Kind::all_gather, Algorithm::one_shot, 4, 100, 30);
  const auto separate = made.lowered();
  CHECK(slot_bytes(separate) == 0);
  CHECK(separate.workspace_bytes == 0);
  for (const auto& block : separate.blocks) {
    for (auto s = block.steps.begin; s < block.steps.end; s++) {
      const auto& step = separate.steps[s];
      for (auto i = step.receives.begin; i < step.receives.end; i++) {
        const auto lent = separate.ends[i].lent;
        REQUIRE(lent.end - lent.begin == 1);
        CHECK(separate.parts[lent.begin].buffer / 2 != block.rank);
        CHECK(separate.parts[lent.begin].buffer < 2 * made.problem.size);
      }
    }
  }
  // A rank's in-place buffers affect its own lending only.
  auto ring = case_of(Kind::all_reduce, Algorithm::ring, 4, 100, 30);
  const auto before = slot_bytes(ring.lowered());
  ring.in_place.assign(4, true);
  CHECK(slot_bytes(ring.lowered()) >= before);
}

TEST_CASE("lower: slots and pushed words are with the receiver, scratch with its rank",
          "[engine][device][unit]") {
  auto made = case_of(Kind::all_reduce, Algorithm::ring, 4, 100, 30);
  made.in_place.assign(4, true);
  made.devices = {1, 0, 1, 0};
  made.tiny_bytes = 0;
  const auto team = made.lowered();
  REQUIRE(slot_bytes(team) > 0);
  std::vector<std::uint64_t> used(2);
  for (const auto& block : team.blocks) {
    CHECK(block.device == made.devices[block.rank]);
    CHECK(team.blocks[block.number].rank == block.rank);
    for (auto s = block.steps.begin; s < block.steps.end; s++) {
      const auto& step = team.steps[s];
      for (auto i = step.receives.begin; i < step.receives.end; i++)
        CHECK(team.channels[team.ends[i].channel].to == block.device);
      for (auto i = step.sends.begin; i < step.sends.end; i++)
        CHECK(team.channels[team.ends[i].channel].from == block.device);
      for (auto i = step.store.begin; i < step.store.end; i++)
        if (team.parts[i].buffer >= team.program.workspace)
          CHECK(team.parts[i].buffer == team.program.workspace + block.device);
    }
  }
  for (const auto& channel : team.channels) used[channel.to] += kTeamSlots * channel.slot_bytes;
  // Each device holds its two ranks' memory, not that of all ranks.
  CHECK(team.workspace_bytes == std::ranges::max(used));
  CHECK(team.blocks_of(0).size() + team.blocks_of(1).size() == team.blocks.size());
  // A device on which no rank has work takes part, too.
  REQUIRE(team.blocks_of(2).size() == 1);
  CHECK(team.blocks_of(2)[0].number >= team.blocks.size());
  CHECK(team.blocks_of(2)[0].steps.begin == team.blocks_of(2)[0].steps.end);
}

TEST_CASE("lower: only what crosses from device to device is read across", "[engine][device]") {
  auto made = case_of(Kind::all_gather, Algorithm::one_shot, 4, 100, 30);
  CHECK_FALSE(made.lowered().reads_across());
  made.devices = {0, 0, 0, 1};
  CHECK(made.lowered().reads_across());
  auto request = made.request();
  request.lends = false;
  CHECK_FALSE(lower(request).value().reads_across());
  request = made.request();
  request.devices.pop_back();
  CHECK(lower(request).error().message.find("has the GPUs of 3 ranks") != std::string::npos);
  request.devices = {0, 1, 2, 16};
  CHECK(lower(request).error().kind == ErrorKind::unsupported);
}

TEST_CASE("lower: nothing to do is no block", "[engine][device][unit]") {
  for (const auto& entry : catalogue()) {
    if (entry.kind == Kind::barrier) continue;
    const auto made = case_of(entry.kind, entry.algorithm, 3, 0, 4);
    CAPTURE(made.text());
    const auto team = made.lowered();
    CHECK(team.blocks.empty());
    CHECK(team.program.block_count == 0);
    CHECK(team.workspace_bytes == 0);
  }
}

TEST_CASE("lower: scratch and slots lie apart, and within the workspace",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const int draws = testing::by_effort(5, 20, 200);
  for (const auto& entry : catalogue()) {
    for (int draw = 0; draw < draws; draw++) {
      const auto made = test::random_case(entry, random);
      CAPTURE(seed, draw, made.text());
      const auto team = made.lowered();
      std::uint64_t scratch_end = 0;
      for (const auto& part : team.parts) {
        if (part.buffer != team.program.workspace) continue;
        CHECK_FALSE(part.moves);
        CHECK(part.offset % kTeamAlignment == 0);
        scratch_end =
            std::max(scratch_end, part.offset + std::min(part.bytes, team.program.slice_bytes));
      }
      std::uint64_t slots_begin = scratch_end;
      for (const auto& channel : team.channels) {
        CHECK(channel.slots >= slots_begin);
        slots_begin = channel.slots + team.program.slots * channel.slot_bytes;
      }
      CHECK(slots_begin <= team.workspace_bytes);
      CHECK(scratch_end <= team.workspace_bytes);
    }
  }
}

TEST_CASE("lower: schedules need no more slots than a team has", "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (const auto& entry : catalogue()) {
    const auto made = test::random_case(entry, random);
    CAPTURE(seed, made.text());
    const auto report = verify(made.problem, made.choice, made.request().schedule);
    CHECK(report.text() == "");
    CHECK(report.slots_needed <= kTeamSlots);
  }
}

TEST_CASE("lower: what cannot be run is refused with a reason", "[engine][device][unit]") {
  const auto made = case_of(Kind::all_reduce, Algorithm::ring, 3, 30, 4);
  auto request = made.request();
  request.type = DataType::float32;
  request.op = ReduceOp::bit_xor;
  CHECK(lower(request).error().message == "bit_xor is not defined on float32");

  request = made.request();
  request.in_place = {true};
  CHECK(lower(request).error().kind == ErrorKind::invalid_argument);
  request = made.request();
  request.slots = 0;
  CHECK(lower(request).error().kind == ErrorKind::invalid_argument);

  const auto crowd = case_of(Kind::all_reduce, Algorithm::ring, kMostTeamRanks + 1, 30, 4);
  CHECK(lower(crowd.request()).error().message == "a team of 65 ranks: expected at most 64");

  request = made.request();
  request.choice.slice_elems = 0;
  CHECK(lower(request).error().message == "no schedule for a team: slices of 0 elements");

  request = made.request();
  request.schedule = [&](Rank rank) {
    auto program = made.request().schedule(rank);
    if (rank == 1) program.lanes[0].steps.pop_back();
    return program;
  };
  const auto refused = lower(request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("rank") != std::string::npos);
  CHECK(refused.error().message.find("differ") != std::string::npos);
}

TEST_CASE("team cases: a cover of pairs has every type with every algorithm and operation",
          "[engine][device][unit]") {
  std::mt19937_64 random(7);
  const auto cases = test::pairwise_cover(3, random);
  for (const auto type : kDataTypes) {
    for (const auto op : kReduceOps) {
      const auto has = [&](const TeamCase& made) { return made.type == type && made.op == op; };
      CHECK(std::ranges::any_of(cases, has) == is_defined(op, type));
    }
    for (const auto& entry : catalogue()) {
      if (entry.kind == Kind::barrier) continue;
      CAPTURE(to_string(type), to_string(entry.kind), to_string(entry.algorithm));
      CHECK(std::ranges::any_of(cases, [&](const TeamCase& made) {
        return made.entry->kind == entry.kind && made.entry->algorithm == entry.algorithm &&
               made.type == type;
      }));
    }
  }
  CHECK(cases.size() < 10'000);
}
