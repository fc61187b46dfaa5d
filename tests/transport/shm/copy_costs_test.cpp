// SPDX-License-Identifier: Apache-2.0
#include "transport/copy_costs.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "support/effort.hpp"
#include "transport/shm/single_copy.hpp"

namespace ccoll {
namespace {

using Pattern = CopyCosts::Pattern;

constexpr CopyCosts kSome{{{{{2, 4, 10, 40}, {3, 6, 20, 80}}, {{4, 8, 20, 80}, {3, 6, 22, 90}}}}};

}  // namespace

TEST_CASE("copy costs: times are linear between the sizes, and proportional beyond",
          "[transport]") {
  CHECK(kSome.slots(Pattern::one_way, 16 << 10) == Approx(2));
  CHECK(kSome.slots(Pattern::one_way, 40 << 10) == Approx(3));
  CHECK(kSome.loan(Pattern::both_ways, 256 << 10) == Approx(22));
  CHECK(kSome.loan(Pattern::both_ways, 8 << 20) == Approx(720));
  CHECK(kSome.slots(Pattern::one_way, 1) == Approx(2));
  CHECK_FALSE(kSome.prefers_loan(Pattern::one_way, 64 << 10));
  CHECK(kSome.prefers_loan(Pattern::both_ways, 64 << 10));
  double last = 0;
  for (std::uint64_t bytes = 16 << 10; bytes <= std::uint64_t{64} << 20; bytes += 4096) {
    const double now = kSome.loan(Pattern::both_ways, bytes);
    REQUIRE(now >= last);
    last = now;
  }
}

TEST_CASE("copy costs: a text is read back as it was written", "[transport]") {
  const auto text = to_text(kSome);
  const auto read = parse_copy_costs(text);
  REQUIRE(read);
  CHECK(*read == kSome);
}

TEST_CASE("copy costs: a damaged text is refused with its line", "[transport]") {
  const auto text = to_text(kSome);
  for (std::size_t length = 0; length + 1 < text.size(); length++)
    CHECK_FALSE(parse_copy_costs(text.substr(0, length)));
  const auto refusal = [&](const std::string& was, const std::string& is) {
    auto changed = text;
    changed.replace(changed.find(was), was.size(), is);
    const auto read = parse_copy_costs(changed);
    return read ? "accepted" : read.error().message;
  };
  CHECK(
      refusal("one_way 65536 slots 4", "one_way 65536 slots -4") ==
      "'one_way 65536 slots -4.000 loan 6.000': expected 'one_way 65536 slots T loan T' with times "
      "in microseconds");
  CHECK(refusal("loan 6", "loan nan") != "accepted");
  CHECK(refusal("loan 6", "loan 1e300") != "accepted");
  CHECK(refusal("65536", "65537") != "accepted");
  CHECK(refusal("both_ways", "one_way") != "accepted");
  CHECK(refusal("loan 6.000", "loan 6.000 7") != "accepted");
  const auto longer = parse_copy_costs(text + "more\n");
  REQUIRE_FALSE(longer);
  CHECK(longer.error().message == "'more': expected no more lines");
}

TEST_CASE("copy costs: measuring ends in time, whatever else the machine does", "[transport]") {
  const auto begun = std::chrono::steady_clock::now();
  auto costs = measure_copy_costs();
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(5));
  // Other work may keep it from an answer many times, but not always. A sanitizer may, always.
  const bool can = !testing::reduced() && std::thread::hardware_concurrency() > 1 &&
                   shm::PeerMemory::reach(::getpid(), shm::process_mark()).has_value();
  for (int i = 0; i < 1000 && can && !costs; i++) costs = measure_copy_costs();
  if (can) CHECK(costs.has_value());
  if (costs) {
    for (const auto& times : costs->patterns)
      for (std::size_t i = 0; i < CopyCosts::kSizes.size(); i++) {
        CHECK(times.slots[i] > 0);
        CHECK(times.loan[i] > 0);
      }
    // No processor moves 100 bytes in a nanosecond from core to core.
    CHECK(costs->slots(Pattern::one_way, 1 << 20) > 10);
  }
}

}  // namespace ccoll
