// SPDX-License-Identifier: Apache-2.0
#include "comm/call/byte_call.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>

#include "algorithms/algorithms.hpp"
#include "comm/call/extent.hpp"
#include "core/signature.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

/// A call that any rank of `size` may make.
struct GoodCall {
  explicit GoodCall(std::mt19937_64& random) : size(static_cast<Rank>(2 + random() % 1000)) {
    constexpr std::array kCalls{
        ByteCall{"broadcast_bytes", kBroadcastBytes, {Kind::broadcast}, 0},
        ByteCall{"all_gather_bytes", kAllGatherBytes, {Kind::all_gather, true}, 0},
        ByteCall{"gather_bytes", kGatherBytes, {Kind::gather, true}, 0}};
    call = kCalls[random() % kCalls.size()];
    call.root = static_cast<int>(random() % size);
    call.length = std::array{std::size_t{0}, random() % 1000, most()}[random() % 3];
    const auto algorithms = algorithms_for(call.collective.kind, call.collective.ragged);
    if (random() % 2 == 0) options.algorithm = to_string(algorithms[random() % algorithms.size()]);
    if (random() % 2 == 0) options.timeout = std::chrono::milliseconds(random() % 10'000);
  }
  /// All ranks' strings together are as long as memory can be.
  std::size_t most() const { return kBeyondMemory / size; }

  Rank size;
  ByteCall call{};
  CallOptions options;
};

/// Makes one thing wrong, and says which words of the refusal tell it.
const char* spoil(GoodCall& good, unsigned what, std::mt19937_64& random) {
  switch (what) {
    case 0:
      good.call.root = random() % 2 == 0 ? -1 : static_cast<int>(good.size + random() % 5);
      return "root";
    case 1:
      good.options.stream.emplace();
      return "stream";
    case 2:
      // The last one's sum would be small again if it overflowed.
      good.call.length =
          std::array{good.most() + 1, SIZE_MAX, SIZE_MAX / good.size + 1}[random() % 3];
      return "more than memory can hold";
    case 3:
      good.options.timeout = -1ms;
      return "time limit";
    default:
      good.options.algorithm = random() % 2 == 0 ? "no such" : "two_shot";
      return "no algorithm '";
  }
}

}  // namespace

TEST_CASE("byte call: whatever is wrong on one rank is refused before others hear of the call",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 500; trial++) {
    GoodCall good(random);
    CAPTURE(good.call.name, good.call.root, good.call.length, good.size);
    CHECK(check_byte_call(good.call, good.size, good.options));
    const auto what = static_cast<unsigned>(random() % 5);
    const auto* const words = spoil(good, what, random);
    const auto checked = check_byte_call(good.call, good.size, good.options);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().kind == ErrorKind::invalid_argument);
    CHECK_THAT(checked.error().message, Contains(words));
    // The text names the call, or the collective that has the algorithms.
    const auto collective = std::string(to_string(good.call.collective.kind));
    CHECK_THAT(checked.error().message, StartsWith(collective));
    if (what < 4) CHECK_THAT(checked.error().message, StartsWith(std::string(good.call.name)));
  }
}

TEST_CASE("byte call: the lengths that all ranks may give have a sum", "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 300; trial++) {
    GoodCall good(random);
    good.call.length = random() >> (random() % 64);
    if (!check_byte_call(good.call, good.size, good.options)) continue;
    std::uint64_t sum = 0;
    CHECK_FALSE(__builtin_mul_overflow(good.call.length, good.size, &sum));
    CHECK(sum <= kBeyondMemory);
  }
}

}  // namespace ccoll::test
