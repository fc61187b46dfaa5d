// SPDX-License-Identifier: Apache-2.0
// Programs of teams on several GPUs, which the host plays: what is refused, and what is loaded
// beside a program.
#include <catch2/catch.hpp>

#include "engine/device/team.hpp"
#include "engine/device/team_device.hpp"
#include "support/cuda_on_host.hpp"
#include "team_case.hpp"

using namespace ccoll;
using namespace ccoll::device;
using ccoll::test::TeamCase;

namespace {

/// Ranks take the GPUs in turn.
struct TeamOnGpus {
  TeamOnGpus(Rank ranks, std::uint32_t gpus) {
    cuda_on_host_has(static_cast<int>(gpus));
    TeamOptions options;
    options.ranks = ranks;
    for (Rank rank = 0; rank < ranks; rank++)
      options.devices.push_back(static_cast<int>(rank % gpus));
    team = Team::make(options).value();
  }

  TeamCase all_reduce(Algorithm algorithm, std::uint64_t count) const {
    TeamCase made;
    made.problem.kind = Kind::all_reduce;
    made.devices = team->device_numbers();
    made.problem.size = static_cast<Rank>(made.devices.size());
    made.problem.count = count;
    made.choice = {algorithm, 1, 1024};
    made.type = DataType::int32;
    return made;
  }

  std::unique_ptr<Team> team;
};

}  // namespace

TEST_CASE("team: blocks have numbers over all GPUs, and a program has no more than there are",
          "[engine][device]") {
  // On each GPU they have room.
  cuda_on_host_has_multiprocessors(1024);
  const TeamOnGpus gpus(64, 8);
  auto made = gpus.all_reduce(Algorithm::double_tree, 1 << 20);
  made.tiny_bytes = 0;
  bool is_refused = false;
  for (std::uint16_t lanes = 1; lanes <= 16; lanes *= 2) {
    made.choice.lanes = lanes;
    const auto lowered = made.lowered();
    CAPTURE(lanes, lowered.blocks.size());
    const auto loaded = gpus.team->load(lowered);
    REQUIRE(loaded.has_value() == (lowered.blocks.size() <= 2048));
    if (loaded) continue;
    is_refused = true;
    CHECK(loaded.error().kind == ErrorKind::unsupported);
    CHECK(loaded.error().message.find("and 2048 blocks") != std::string::npos);
  }
  CHECK(is_refused);
  cuda_on_host_has_multiprocessors(16);
}

TEST_CASE("team: what reads no buffers of other GPUs asks for nothing that lends none",
          "[engine][device]") {
  const TeamOnGpus gpus(2, 2);
  // By words, but in place by slots.
  auto made = gpus.all_reduce(Algorithm::two_shot, 64);
  const auto separate = made.lowered();
  made.in_place.assign(2, true);
  const auto in_place = made.lowered();
  auto request = made.request();
  request.lends = false;
  const auto lending_nothing = lower(request).value();
  REQUIRE(separate.program.by_words);
  REQUIRE_FALSE(in_place.program.by_words);
  REQUIRE(in_place.reads_across());
  const LoadedProgram* const loaded = gpus.team->load(separate, in_place, &lending_nothing).value();
  CHECK(loaded->lending_nothing == nullptr);
  REQUIRE(loaded->in_place != nullptr);
  CHECK(loaded->in_place->lending_nothing != nullptr);
}
