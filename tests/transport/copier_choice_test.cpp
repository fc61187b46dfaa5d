// SPDX-License-Identifier: Apache-2.0
#include "transport/copier_choice.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <vector>

namespace ccoll {
namespace {

using std::chrono::nanoseconds;

constexpr int kTries = CopierChoice::kTries;

struct Machine {
  nanoseconds usual, other;  ///< the time of either way
};

/// How many of the transfers went the other way, without the timed ones.
int went_other_way(CopierChoice& choice, Copier usual, int transfers, const Machine& machine,
                   std::mt19937_64& random) {
  int others = 0, timed = 0, odd_one = 0;
  for (int i = 0; i < transfers; i++) {
    const auto transfer = choice.begin();
    const bool is_other = transfer.copier != usual;
    const auto time = is_other ? machine.other : machine.usual;
    if (!transfer.is_timed) {
      others += is_other;
      continue;
    }
    // Other work comes into one of them, or it fails.
    if (timed % CopierChoice::kTimed == 0) odd_one = static_cast<int>(random() % 8);
    if (timed++ % CopierChoice::kTimed != odd_one)
      choice.end(transfer, time);
    else if (random() % 2 == 0)
      choice.end(transfer, time + nanoseconds(random() % 10'000'000));
  }
  return others;
}

}  // namespace

TEST_CASE("copier choice: what takes less is found, and found anew on a machine that changes",
          "[transport]") {
  std::mt19937_64 random(Catch::rngSeed());
  for (int round = 0; round < 50; round++) {
    const auto usual = random() % 2 == 0 ? Copier::receiver : Copier::sender;
    CopierChoice choice(usual, random() % 2 == 0 ? Copier::sender_always : Copier::sender_aside);
    bool is_other = false;
    int transfers = CopierChoice::kFirstPeriod, tries = CopierChoice::kFirstTries;
    for (int period = 0; period < 8; period++) {
      const nanoseconds fast(1'000 + random() % 1'000'000);
      const nanoseconds slow = fast * (112 + random() % 300) / 100;
      is_other = random() % 2 == 0;
      const Machine machine = is_other ? Machine{slow, fast} : Machine{fast, slow};
      const int others = went_other_way(choice, usual, transfers, machine, random);
      CHECK(others == tries - CopierChoice::kTimed + (is_other ? transfers - 2 * tries : 0));
      CHECK(choice.prefers_other() == is_other);
      transfers = std::min(2 * transfers, CopierChoice::kPeriod);
      tries = kTries;
    }
    // If both are about alike it stays with the last one.
    const nanoseconds alike(1'000 + random() % 1'000'000);
    const Machine machine{alike, alike * (92 + random() % 17) / 100};
    const int others = went_other_way(choice, usual, transfers, machine, random);
    CHECK((others > kTries) == is_other);
  }
}

TEST_CASE("copier choice: who counts alike tries alike, whatever each has found", "[transport]") {
  std::mt19937_64 random(Catch::rngSeed());
  CopierChoice one, other;
  int tries = 0;
  // Periods of 64, 128, 256, 512, 1024 and 1024.
  for (int i = 0; i < 2 * CopierChoice::kPeriod - 64 + CopierChoice::kPeriod; i++) {
    const auto a = one.begin(), b = other.begin();
    REQUIRE(a.is_timed == b.is_timed);
    if (!a.is_timed) continue;
    REQUIRE(a.copier == b.copier);
    tries++;
    one.end(a, nanoseconds(1 + random() % 1000));
    if (random() % 2 == 0) other.end(b, nanoseconds(1 + random() % 1000));
  }
  CHECK(tries == 6 * 2 * CopierChoice::kTimed);
}

}  // namespace ccoll
