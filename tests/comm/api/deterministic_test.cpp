// SPDX-License-Identifier: Apache-2.0
// Tests CommunicatorOptions::deterministic: the result's bits depend on the contributions and their
// ranks alone.
#include <fmt/format.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "algorithms/algorithms.hpp"
#include "ccoll/communicator.hpp"
#include "core/element.hpp"
#include "support/effort.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using testing::expect;
using testing::run_ranks;

namespace {

/// Element `i` of a rank's contribution. The magnitudes differ so much that each order of adding
/// gives another sum.
float contribution(unsigned seed, int rank, std::size_t i) {
  std::minstd_rand random(seed + 1'000'003 * static_cast<unsigned>(rank) +
                          7'919 * static_cast<unsigned>(i));
  random.discard(3);
  const auto mantissa = static_cast<float>(random() % 16'000'057) - 8'000'000;
  return std::ldexp(mantissa, static_cast<int>(random() % 8));
}

float from_rank_0_up(unsigned seed, int size, std::size_t i) {
  float sum = contribution(seed, 0, i);
  for (int rank = 1; rank < size; rank++) sum += contribution(seed, rank, i);
  return sum;
}

std::vector<float> contributions(unsigned seed, int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; i++) values[i] = contribution(seed, rank, i);
  return values;
}

void expect_sums(const float* sums, std::size_t count, unsigned seed, int size, std::size_t first,
                 const char* what) {
  for (std::size_t i = 0; i < count; i++) {
    const float expected = from_rank_0_up(seed, size, first + i);
    expect(std::bit_cast<std::uint32_t>(sums[i]) == std::bit_cast<std::uint32_t>(expected),
           fmt::format("{} of {} ranks, element {}: {} instead of {} (seed {})", what, size,
                       first + i, sums[i], expected, seed));
  }
}

void check_all_kinds(Communicator& communicator, unsigned seed, std::size_t count) {
  const int size = communicator.size(), rank = communicator.rank();
  const auto in = contributions(seed, rank, count);
  std::vector<float> out(count);
  communicator.all_reduce(ConstBlock(in.data(), count, DataType::float32),
                          Block(out.data(), count, DataType::float32));
  expect_sums(out.data(), count, seed, size, 0, "all_reduce");
  const int root = static_cast<int>(seed) % size;
  communicator.reduce(ConstBlock(in.data(), count, DataType::float32),
                      Block(out.data(), count, DataType::float32), ReduceOp::sum, root);
  if (rank == root) expect_sums(out.data(), count, seed, size, 0, "reduce");
  const std::size_t share = count / static_cast<std::size_t>(size);
  communicator.reduce_scatter(ConstBlock(in.data(), communicator.size() * share, DataType::float32),
                              Block(out.data(), share, DataType::float32));
  expect_sums(out.data(), share, seed, size, share * static_cast<std::size_t>(rank),
              "reduce_scatter");
}

}  // namespace

TEST_CASE("deterministic: sums are those from rank 0 up, by every operation, size and transport",
          "[comm][property]") {
  const unsigned seed = std::random_device{}() % 1'000'000;
  for (const char* transport : {"inproc", "tcp"}) {
    for (const int size :
         testing::reduced() ? std::vector{2, 3, 5} : std::vector{1, 2, 3, 4, 5, 7}) {
      CommunicatorOptions options;
      options.transport = transport;
      options.deterministic = true;
      // A call that this algorithm cannot do uses another one.
      options.algorithm = size % 2 == 0 ? "ring" : "";
      const auto errors = run_ranks(size, options, [&](Communicator& communicator) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{10}, std::size_t{3'001},
                                        testing::by_effort<std::size_t>(40'003, 200'003, 200'003)})
          check_all_kinds(communicator, seed, count);
      });
      CAPTURE(transport, size);
      for (const auto& error : errors) CHECK(error == "");
    }
  }
}

TEST_CASE("deterministic: without it a ring's sums are others", "[comm]") {
  const auto errors = run_ranks(4, {}, [&](Communicator& communicator) {
    constexpr std::size_t kCount = 1'000;
    const auto in = contributions(1, communicator.rank(), kCount);
    std::vector<float> out(kCount);
    communicator.all_reduce(ConstBlock(in.data(), kCount, DataType::float32),
                            Block(out.data(), kCount, DataType::float32), ReduceOp::sum,
                            {.timeout = {}, .algorithm = "ring"});
    std::size_t different = 0;
    for (std::size_t i = 0; i < kCount; i++) different += out[i] != from_rank_0_up(1, 4, i);
    expect(different > kCount / 10, fmt::format("{} sums differ", different));
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("deterministic: an algorithm that adds step by step is refused where it matters",
          "[comm]") {
  CommunicatorOptions options;
  options.deterministic = true;
  const auto errors = run_ranks(3, options, [](Communicator& communicator) {
    const CallOptions ring{.timeout = {}, .algorithm = "ring"};
    float sum = 1;
    try {
      communicator.all_reduce(std::span(&sum, 1), ReduceOp::sum, ring);
      expect(false, "accepted");
    } catch (const Error& error) {
      expect(std::string(error.what())
                 .starts_with("all_reduce: the communicator is deterministic, and ring does not "
                              "combine all in one step; these do: "),
             error.what());
    }
    // Integer sums are the same in any order.
    std::int32_t whole = communicator.rank();
    communicator.all_reduce(std::span(&whole, 1), ReduceOp::sum, ring);
    expect(whole == 3, "a sum of integers");
    communicator.all_reduce(std::span(&sum, 1), ReduceOp::max, ring);
    expect(communicator.algorithm_for("all_reduce", 1 << 24, DataType::float32) == "two_shot",
           communicator.algorithm_for("all_reduce", 1 << 24, DataType::float32));
  });
  for (const auto& error : errors) CHECK(error == "");
}
