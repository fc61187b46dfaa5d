// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/layer.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/device/host_block.hpp"

namespace ccoll::device {
namespace {

static_assert(Block<LoneThread> && Block<HostBlock>);

constexpr std::uint32_t kThreads = 4;

/// Threads of one block write neighbours' plain words between barriers; returns 0 if those order.
std::uint32_t rotate(const HostBlock& block, std::array<std::uint32_t, kThreads>& words) {
  std::uint32_t wrong = 0;
  for (std::uint32_t round = 0; round < 100; ++round) {
    words[(block.thread() + round) % block.threads()] = block.thread() + round;
    block.barrier();
    const std::uint32_t mine = (block.thread() + 1) % block.threads();
    wrong += words[(mine + round) % block.threads()] != mine + round;
    block.barrier();
  }
  return wrong;
}

}  // namespace

TEST_CASE("a block's barrier orders what its threads write", "[kernels][device]") {
  std::array<std::uint32_t, kThreads> words = {};
  std::array<std::uint32_t, kThreads> wrong = {};
  run_block(kThreads,
            [&](const HostBlock& block) { wrong[block.thread()] = rotate(block, words); });
  CHECK(wrong == std::array<std::uint32_t, kThreads>{});
}

TEST_CASE("what one block publishes another takes whole", "[kernels][device]") {
  constexpr std::uint64_t kRounds = 200;
  std::array<std::uint64_t, kThreads> data = {};
  std::array<std::uint32_t, kThreads> wrong = {};
  std::uint64_t published = 0;
  std::uint32_t taken = 0;
  std::jthread writer([&] {
    run_block(kThreads, [&](const HostBlock& block) {
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        if (block.thread() == 0) {
          while (load_acquire(&taken) != round - 1) relax();
        }
        block.barrier();
        data[block.thread()] = round * (block.thread() + 1);
        block.barrier();
        if (block.thread() == 0) store_release(&published, round);
      }
    });
  });
  run_block(kThreads, [&](const HostBlock& block) {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      if (block.thread() == 0) {
        while (load_acquire(&published) != round) relax();
      }
      block.barrier();
      const std::uint64_t from = (block.thread() + 1) % kThreads;
      wrong[block.thread()] += data[from] != round * (from + 1);
      block.barrier();
      if (block.thread() == 0) store_release(&taken, static_cast<std::uint32_t>(round));
    }
  });
  CHECK(wrong == std::array<std::uint32_t, kThreads>{});
}

TEST_CASE("of words that several write none is lost, and one at a time has what they guard",
          "[kernels][device]") {
  constexpr std::uint64_t kRounds = 500;
  std::uint64_t owner = 0, count = 0, guarded = 0;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t id = 1; id <= kThreads; ++id) {
      threads.emplace_back([&, id] {
        for (std::uint64_t round = 0; round < kRounds; ++round) {
          add(&count, 1);
          while (!exchange_if(&owner, 0, id)) relax();
          ++guarded;
          store_release(&owner, 0);
        }
      });
    }
  }
  CHECK(count == kThreads * kRounds);
  CHECK(guarded == kThreads * kRounds);
  CHECK(add(&count, 2) == kThreads * kRounds + 2);
  CHECK_FALSE(exchange_if(&owner, 1, 2));
}

}  // namespace ccoll::device
