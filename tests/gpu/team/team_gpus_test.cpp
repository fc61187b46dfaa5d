// SPDX-License-Identifier: Apache-2.0
// Teams on several GPUs, which the host plays: which programs are refused, what may be loaded at
// once, and which calls are copies.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "gpu/team/team.hpp"
#include "gpu/team/team_device.hpp"
#include "gpu_check/figures/team_bench.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/logged.hpp"
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

/// Keyed by the GPU whose stream copies, the source and the destination.
using Traffic = std::map<std::array<int, 3>, std::array<std::uint64_t, 2>>;

Traffic traffic_among(int gpus) {
  Traffic traffic;
  for (int by = 0; by < gpus; by++) {
    for (int from = 0; from < gpus; from++) {
      for (int to = 0; to < gpus; to++) {
        const auto carried = cuda_on_host_carried(by, from, to);
        traffic[{by, from, to}] = {carried.copies, carried.bytes};
      }
    }
  }
  return traffic;
}

/// Random ranks may be in place; they use some of that many GPUs.
TeamCase random_exchange(Kind kind, std::uint32_t gpus, std::mt19937_64& random) {
  auto made = test::case_of(kind, kind == Kind::all_gather ? Algorithm::ring : Algorithm::pairwise,
                            static_cast<Rank>(2 + random() % 7), 1 + random() % 3000, 500);
  for (Rank rank = 0; rank < made.problem.size; rank++)
    made.in_place[rank] = may_be_in_place(kind) && random() % 3 == 0;
  test::spread(made, gpus, random);
  return made;
}

/// The expected traffic of a call between GPUs: each block once to every GPU that needs it.
Traffic links_of(const TeamCase& made) {
  Traffic links;
  const std::uint64_t bytes = made.problem.count * size_of(made.type);
  const auto add = [&](std::uint32_t from, std::uint32_t to) {
    const auto gpu = static_cast<int>(from);
    auto& [copies, carried] = links[{gpu, gpu, static_cast<int>(to)}];
    ++copies;
    carried += bytes;
  };
  for (const std::uint32_t from : made.devices) {
    std::set<std::uint32_t> known = {from};
    for (const std::uint32_t to : made.devices) {
      const bool is_new = known.insert(to).second;
      if (to != from && (is_new || made.problem.kind == Kind::all_to_all)) add(from, to);
    }
  }
  return links;
}

}  // namespace

TEST_CASE("team: blocks have numbers over all GPUs, and a program has no more than there are",
          "[engine][device]") {
  // Each GPU has room for them.
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
  // Uses words, but slots if in place.
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

TEST_CASE("team: copies between GPUs leave what the kernel leaves, and carry each block once",
          "[engine][device][property]") {
  constexpr std::uint32_t kGpus = 4;
  cuda_on_host_has(kGpus);
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  testing::TeamOnHost host(test::kMostBlocks, test::kMostFlags, kGpus);
  const int draws = testing::by_effort(4, 12, 100);
  for (int draw = 0; draw < draws; draw++) {
    const auto kind = draw % 2 == 0 ? Kind::all_gather : Kind::all_to_all;
    auto made = random_exchange(kind, kGpus, random);
    CAPTURE(seed, draw, made.text());
    gpu_check::TeamBench bench(made.problem.size, kMostTeamThreads, CopyUse::always,
                               {made.devices.begin(), made.devices.end()});
    const std::set<std::uint32_t> gpus(made.devices.begin(), made.devices.end());
    const auto links = links_of(made);
    // Numbered as in the team.
    made.devices = bench.team().device_numbers();
    const auto lowered = made.lowered();
    const auto* const program = bench.team().load(lowered).value();
    for (int call = 0; call < 3; call++) {
      test::TeamMemory expected(made, random);
      auto memory = expected;
      host.run(lowered, expected.buffers(), 1);
      const int kernels = cuda_on_host_team_kernels(), claims = cuda_on_host_kernels();
      const auto before = traffic_among(kGpus);
      const auto way = static_cast<gpu_check::TeamBench::Way>(random() % 3);
      REQUIRE(bench.run(program, memory, way).has_value());
      CHECK(memory == expected);
      CHECK(cuda_on_host_team_kernels() == kernels);
      // Counted on each GPU.
      CHECK(cuda_on_host_kernels() - claims == static_cast<int>(2 * gpus.size()));
      for (const auto& [link, after] : traffic_among(kGpus)) {
        if (link[1] == link[2]) continue;
        CAPTURE(link);
        const auto known = links.find(link);
        const auto carried = known == links.end() ? Traffic::mapped_type{} : known->second;
        CHECK(after[0] - before.at(link)[0] == carried[0]);
        CHECK(after[1] - before.at(link)[1] == carried[1]);
      }
    }
  }
}

TEST_CASE("team: where copies do not work in one direction, programs have none",
          "[engine][device]") {
  // GPUs that no test has probed before.
  const auto [how, first] =
      GENERATE(table<cuda_on_host_peers, int>({{kCopiesWrong, 8}, {kCopiesHang, 10}}));
  CAPTURE(how);
  cuda_on_host_has(12);
  cuda_on_host_has_peers(how);
  const auto made = test::case_of(Kind::all_to_all, Algorithm::pairwise, 2, 1000, 500);
  for (const CopyUse use : {CopyUse::never, CopyUse::always, CopyUse::always}) {
    TeamOptions options;
    options.ranks = 2;
    options.devices = {first, first + 1};
    options.copies = use;
    std::unique_ptr<Team> team;
    const auto said = testing::logged([&] { team = Team::make(options).value(); });
    auto placed = made;
    placed.devices = team->device_numbers();
    const auto lowered = placed.lowered();
    REQUIRE_FALSE(lowered.copies.empty());
    CHECK(team->load(lowered).value()->copies.empty());
    // Reported once, to the first caller that asks for copies.
    static std::set<int> told;
    const bool is_first = use == CopyUse::always && told.insert(first).second;
    CAPTURE(said);
    CHECK((said.find("by copies") != said.npos) == is_first);
  }
  cuda_on_host_has_peers(kPeersWell);
}
