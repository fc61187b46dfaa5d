// SPDX-License-Identifier: Apache-2.0
// Calls made as copies leave the same memory as the team kernel's code, guards and inputs included.
#include "gpu/program/copies.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <set>

#include "gpu/team/team_memory.hpp"
#include "support/effort.hpp"

using namespace ccoll;
using ccoll::device::CopyUse;
using ccoll::device::PlacedCopy;
using ccoll::device::TeamCopies;
using ccoll::test::TeamCase;
using ccoll::test::TeamMemory;

namespace {

std::uint64_t no_limit(const void* /*from*/) { return UINT64_MAX; }

std::vector<std::byte*> list_of(const std::vector<testing::TeamOnHost::Buffers>& buffers) {
  std::vector<std::byte*> list;
  for (const auto& of_rank : buffers) list.insert(list.end(), {of_rank.input, of_rank.output});
  return list;
}

/// A device may copy bytes in any order, so the ranges must not overlap.
void make(const PlacedCopy& copy) {
  REQUIRE((copy.from + copy.bytes <= copy.to || copy.to + copy.bytes <= copy.from));
  std::memcpy(copy.to, copy.from, copy.bytes);
}

/// Each GPU makes its own copies in order; copies of different GPUs interleave in any order.
void make_beside(std::vector<std::span<const PlacedCopy>> of_gpus, std::mt19937_64& random) {
  std::erase_if(of_gpus, [](const auto& copies) { return copies.empty(); });
  while (!of_gpus.empty()) {
    auto& copies = of_gpus[random() % of_gpus.size()];
    make(copies.front());
    copies = copies.subspan(1);
    std::erase_if(of_gpus, [](const auto& left) { return left.empty(); });
  }
}

/// Acts like GPUs that wait for each other between the two lists.
void make(const std::vector<TeamCopies>& copies, TeamMemory& memory, std::mt19937_64& random) {
  std::vector<device::PlacedCopies> placed;
  for (const TeamCopies& each : copies)
    placed.push_back(device::place(each, list_of(memory.buffers()).data(), &no_limit));
  std::vector<std::span<const PlacedCopy>> sent, spread;
  for (const auto& each : placed) {
    sent.emplace_back(each.sent);
    spread.emplace_back(each.spread);
  }
  make_beside(sent, random);
  make_beside(spread, random);
}

Problem problem_of(Kind kind, Rank size, std::uint64_t count) {
  Problem problem;
  problem.kind = kind;
  problem.size = size;
  problem.count = count;
  return problem;
}

/// For problems of bytes: all inputs, then all outputs.
std::vector<PlacedCopy> placed_side_by_side(
    const Problem& problem, std::vector<std::byte>& memory,
    const std::function<std::uint64_t(const void*)>& bytes_from) {
  const std::uint64_t all = problem.count * problem.size;
  const std::uint64_t input = problem.kind == Kind::all_gather ? problem.count : all;
  memory.resize(problem.size * (input + all));
  std::vector<std::byte*> buffers(std::size_t{2} * problem.size);
  for (Rank rank = 0; rank < problem.size; rank++) {
    buffers[2 * rank] = memory.data() + rank * input;
    buffers[2 * rank + 1] = memory.data() + problem.size * input + rank * all;
  }
  const auto copies = device::copies_of(problem, DataType::uint8);
  REQUIRE(copies.size() == 1);
  auto placed = device::place(copies[0], buffers.data(), bytes_from);
  placed.sent.insert(placed.sent.end(), placed.spread.begin(), placed.spread.end());
  return placed.sent;
}

}  // namespace

TEST_CASE("copies: they leave what the kernel of the same call leaves",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  constexpr std::uint32_t kDevices = 4;
  testing::TeamOnHost team(test::kMostBlocks, test::kMostFlags, kDevices);
  const int draws = testing::by_effort(5, 20, 500);
  for (const auto& entry : catalogue()) {
    if (entry.kind != Kind::all_gather && entry.kind != Kind::all_to_all) continue;
    for (int draw = 0; draw < draws; draw++) {
      auto made = test::random_case(entry, random);
      if (draw % 3 != 0) test::spread(made, kDevices, random);
      CAPTURE(seed, draw, made.text());
      TeamMemory expected(made, random);
      TeamMemory memory = expected;
      team.run(made.lowered(), expected.buffers(), 1);
      make(made.lowered().copies, memory, random);
      CHECK(memory == expected);
    }
  }
}

TEST_CASE("copies: operations that combine, or are of one root, are none", "[engine][device]") {
  for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::broadcast, Kind::barrier})
    CHECK(device::copies_of(problem_of(kind, 4, 100), DataType::int32).empty());
  CHECK(device::copies_of(problem_of(Kind::all_gather, 4, 0), DataType::int32).empty());
}

TEST_CASE("copies: as few as the layout allows, and as many bytes as are needed",
          "[engine][device]") {
  const auto limit_of_one = [](const void*) { return std::uint64_t{1}; };
  std::vector<std::byte> memory;
  for (const Rank size : {1U, 2U, 5U, 8U}) {
    CAPTURE(size);
    const auto gather = problem_of(Kind::all_gather, size, 16);
    const auto exchange = problem_of(Kind::all_to_all, size, 16);
    const auto bytes = [](const std::vector<PlacedCopy>& copies) {
      std::uint64_t all = 0;
      for (const PlacedCopy& copy : copies) all += copy.bytes;
      return all;
    };
    // Separate memory, where no copy can span blocks.
    const auto apart = placed_side_by_side(gather, memory, limit_of_one);
    CHECK(apart.size() == 2 * size - 1);
    CHECK(bytes(apart) == 16 * size * size);
    const auto of_pairs = placed_side_by_side(exchange, memory, limit_of_one);
    CHECK(of_pairs.size() == size * size);
    CHECK(bytes(of_pairs) == 16 * size * size);
    // One copy gathers adjacent inputs.
    CHECK(placed_side_by_side(gather, memory, &no_limit).size() == size);
  }
}

TEST_CASE("copies: between GPUs each block goes once to each GPU that needs it, from where it is",
          "[engine][device][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int draw = 0; draw < 100; draw++) {
    const auto size = static_cast<Rank>(1 + random() % 12);
    const std::size_t gpus = 1 + random() % 5;
    std::vector<std::uint32_t> devices;
    std::vector<std::uint64_t> ranks_on(gpus);
    for (Rank rank = 0; rank < size; rank++) {
      devices.push_back(static_cast<std::uint32_t>(random() % gpus));
      ++ranks_on[devices.back()];
    }
    for (const Kind kind : {Kind::all_gather, Kind::all_to_all}) {
      constexpr std::uint64_t kBlock = 12;
      CAPTURE(seed, to_string(kind), test::listed(devices));
      const auto copies =
          device::copies_of(problem_of(kind, size, kBlock), DataType::uint8, devices);
      std::vector<std::vector<std::uint64_t>> bytes(gpus, std::vector<std::uint64_t>(gpus));
      for (std::size_t gpu = 0; gpu < copies.size(); gpu++) {
        for (const auto& copy : copies[gpu].sent) {
          CHECK(devices[copy.from / 2] == gpu);
          CHECK(copy.from % 2 == 0);
          bytes[gpu][devices[copy.to / 2]] += copy.bytes;
        }
        for (const auto& copy : copies[gpu].spread) {
          CHECK(devices[copy.from / 2] == gpu);
          CHECK(devices[copy.to / 2] == gpu);
        }
        const bool is_gather = kind == Kind::all_gather && ranks_on[gpu] > 1;
        CHECK(copies[gpu].spread.size() == (is_gather ? ranks_on[gpu] - 1 : 0));
      }
      for (std::size_t from = 0; from < gpus; from++) {
        for (std::size_t to = 0; to < gpus; to++) {
          const auto to_each = kind == Kind::all_to_all ? ranks_on[to] : ranks_on[to] > 0 ? 1 : 0;
          CHECK(bytes[from][to] == kBlock * ranks_on[from] * to_each);
        }
      }
    }
  }
}

TEST_CASE("copies: GPUs that keep pace never send to the same one", "[engine][device]") {
  constexpr Rank kSize = 8;
  std::vector<std::uint32_t> devices(kSize);
  std::iota(devices.begin(), devices.end(), 0);
  for (const Kind kind : {Kind::all_gather, Kind::all_to_all}) {
    const auto copies = device::copies_of(problem_of(kind, kSize, 1), DataType::uint8, devices);
    REQUIRE(copies.size() == kSize);
    for (std::size_t turn = 0; turn < kSize; turn++) {
      std::set<std::uint32_t> receivers;
      for (const TeamCopies& each : copies) receivers.insert(each.sent.at(turn).to / 2);
      CHECK(receivers.size() == kSize);
    }
    for (std::uint32_t gpu = 0; gpu < kSize; gpu++) CHECK(copies[gpu].sent.back().to / 2 == gpu);
  }
}

TEST_CASE("copies: two that follow one another are not one that reads what it writes",
          "[engine][device]") {
  std::vector<std::byte> memory(8);
  for (std::size_t i = 0; i < memory.size(); i++) memory[i] = static_cast<std::byte>(i);
  // From bytes 0 and 1 to 1 and 2.
  std::byte* const buffers[] = {memory.data(), memory.data() + 1};
  const TeamCopies copies = {{{0, 1, 0, 0, 1}, {0, 1, 1, 1, 1}}, {}};
  const auto placed = device::place(copies, buffers, &no_limit).sent;
  CHECK(placed.size() == 2);
  for (const PlacedCopy& copy : placed) make(copy);
  CHECK(memory[2] == std::byte{0});
}

TEST_CASE("copies: what is in its place already is not copied", "[engine][device]") {
  constexpr Rank kSize = 4;
  std::vector<std::vector<std::byte>> outputs(kSize, std::vector<std::byte>(kSize));
  std::vector<std::byte*> buffers;
  for (Rank rank = 0; rank < kSize; rank++)
    buffers.insert(buffers.end(), {outputs[rank].data() + rank, outputs[rank].data()});
  const auto copies = device::copies_of(problem_of(Kind::all_gather, kSize, 1), DataType::uint8);
  const auto placed = device::place(copies.at(0), buffers.data(), &no_limit);
  CHECK(placed.sent.size() == kSize - 1);
  CHECK(placed.spread.size() == kSize - 1);
}

TEST_CASE("copies: a call is by copies from some MiB for each of them on", "[engine][device]") {
  const auto are_wanted = [](std::vector<std::uint64_t> sizes, CopyUse use = CopyUse::by_size) {
    // Each GPU may make them.
    std::vector<TeamCopies> copies(2);
    for (std::size_t i = 0; i < sizes.size(); i++)
      (i == 0 ? copies[0].spread : copies[1].sent).push_back({0, 1, 0, 0, sizes[i]});
    return device::are_wanted(use, copies);
  };
  constexpr std::uint64_t kMiB = 1 << 20;
  CHECK(are_wanted({4 * kMiB}));
  CHECK_FALSE(are_wanted({4 * kMiB - 1}));
  CHECK(are_wanted({7 * kMiB, kMiB}));
  CHECK_FALSE(are_wanted({64, 64}));
  CHECK(are_wanted({64, 64}, CopyUse::always));
  CHECK_FALSE(are_wanted({4 * kMiB}, CopyUse::never));
}
