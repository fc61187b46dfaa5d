// SPDX-License-Identifier: Apache-2.0

/// Device code with a host thread per device thread, so that the thread sanitizer finds its races.

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "kernels/device/host_block.hpp"
#include "support/effort.hpp"
#include "trial.hpp"

namespace ccoll::testing {

TEMPLATE_TEST_CASE("the threads of a block share out a combination", "[kernels][device]",
                   CCOLL_ALL_TYPES) {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<Trial<TestType>> trials;
  for (const std::uint32_t threads : {4u, 5u, 8u}) {
    trials.clear();
    for (const ReduceOp op : ops_of<TestType>()) {
      for (std::size_t sources = 1; sources <= by_effort<std::size_t>(3, 5, 8); ++sources) {
        for (const Alignment alignment : kAlignments) {
          // Up to five words for each thread.
          const std::size_t elems = random() % (threads * 5 * 16 / sizeof(TestType) + 2);
          trials.emplace_back(Shape{op, elems, sources, alignment}, random);
        }
      }
    }
    device::run_block(threads, [&](const device::HostBlock& block) {
      for (Trial<TestType>& trial : trials) trial.run(block);
    });
    for (Trial<TestType>& trial : trials) {
      const std::string wrong = trial.what_is_wrong();
      if (!wrong.empty()) FAIL(threads << " threads, " << wrong);
    }
    CHECK(trials.size() >= 48);
  }
}

}  // namespace ccoll::testing
