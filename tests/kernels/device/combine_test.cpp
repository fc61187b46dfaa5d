// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/combine.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "support/effort.hpp"
#include "trial.hpp"

namespace ccoll::testing {

TEMPLATE_TEST_CASE("device code combines as the host's kernels do, bit by bit", "[kernels][device]",
                   CCOLL_ALL_TYPES) {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  // A head, a few words and a tail; a block of one thread takes four words at once.
  constexpr std::size_t kMost = 7 * 16 / sizeof(TestType) + 3;
  const std::size_t stride = by_effort<std::size_t>(16, 3, 1);
  std::size_t trials = 0;
  for (const ReduceOp op : ops_of<TestType>()) {
    for (std::size_t sources = 1; sources <= 8; ++sources) {
      for (const Alignment alignment : kAlignments) {
        for (std::size_t elems = random() % stride; elems <= kMost; elems += stride) {
          Trial<TestType> trial({op, elems, sources, alignment}, random);
          trial.run(device::LoneThread());
          const std::string wrong = trial.what_is_wrong();
          if (!wrong.empty()) FAIL(wrong);
          ++trials;
        }
      }
    }
  }
  CHECK(trials > 100);
}

TEST_CASE("the parts of memory between two that are copied are left alone", "[kernels][device]") {
  std::mt19937_64 random(3);
  for (std::size_t bytes = 0; bytes <= 100; ++bytes) {
    for (const std::size_t from : {0, 1, 8, 15}) {
      for (const std::size_t to : {0, 1, 8, 15}) {
        Guarded<std::uint8_t> source(bytes, from);
        for (std::size_t i = 0; i < bytes; ++i) source.set(i, random_element<std::uint8_t>(random));
        Guarded<std::uint8_t> target(bytes, to);
        device::copy(device::LoneThread(), source.data(), target.data(), bytes);
        CAPTURE(bytes, from, to);
        REQUIRE(std::memcmp(source.data(), target.data(), bytes) == 0);
        REQUIRE(target.guards_are_whole());
      }
    }
  }
}

}  // namespace ccoll::testing
