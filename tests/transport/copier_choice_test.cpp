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
constexpr int kFirstPeriod = CopierChoice::kPeriod + CopierChoice::kFirstTries - kTries;

struct Machine {
  nanoseconds receiver, sender;  ///< that the one and the other take at least
};

/// How many of so many transfers went the sender's way but for those that try.
int sender_copied(CopierChoice& choice, int transfers, const Machine& machine,
                  std::mt19937_64& random) {
  int copied = 0;
  for (int i = 0; i < transfers; i++) {
    const auto transfer = choice.begin();
    const bool by_sender = transfer.copier == Copier::sender;
    // Other work comes between, and some transfers fail.
    const auto late = nanoseconds(random() % 4 == 0 ? random() % 100'000 : 0);
    const bool is_last_try = i % CopierChoice::kPeriod % kTries == kTries - 1;
    if (transfer.is_timed) {
      if (is_last_try)
        choice.end(transfer, by_sender ? machine.sender : machine.receiver);
      else if (random() % 4 != 0)
        choice.end(transfer, (by_sender ? machine.sender : machine.receiver) + late);
    } else {
      copied += by_sender;
      choice.end(transfer);
    }
  }
  return copied;
}

}  // namespace

TEST_CASE("copier choice: what takes less is found, and found anew on a machine that changes",
          "[transport]") {
  std::mt19937_64 random(Catch::rngSeed());
  for (int round = 0; round < 50; round++) {
    CopierChoice choice;
    bool is_first = true, by_sender = false;
    for (int period = 0; period < 6; period++) {
      const nanoseconds fast(1'000 + random() % 1'000'000),
          slow(fast * (112 + random() % 300) / 100);
      const bool sender_is_better = random() % 2 == 0;
      const Machine machine = sender_is_better ? Machine{slow, fast} : Machine{fast, slow};
      const int transfers = is_first ? kFirstPeriod : CopierChoice::kPeriod;
      const int free = CopierChoice::kPeriod - 2 * kTries;
      CHECK(sender_copied(choice, transfers, machine, random) == (sender_is_better ? free : 0));
      by_sender = sender_is_better;
      is_first = false;
    }
    // Of two that are about alike it stays with the last one.
    const nanoseconds alike(1'000 + random() % 1'000'000);
    const Machine machine{alike, alike * (92 + random() % 17) / 100};
    CHECK((sender_copied(choice, CopierChoice::kPeriod, machine, random) != 0) == by_sender);
  }
}

TEST_CASE("copier choice: who counts alike tries alike, whatever each has found", "[transport]") {
  std::mt19937_64 random(Catch::rngSeed());
  CopierChoice one, other;
  int tries = 0;
  for (int i = 0; i < 5 * CopierChoice::kPeriod; i++) {
    const auto a = one.begin(), b = other.begin();
    REQUIRE(a.is_timed == b.is_timed);
    if (!a.is_timed) continue;
    REQUIRE(a.copier == b.copier);
    tries++;
    one.end(a, nanoseconds(1 + random() % 1000));
    if (random() % 2 == 0) other.end(b, nanoseconds(1 + random() % 1000));
  }
  CHECK(tries == CopierChoice::kFirstTries - kTries + 5 * 2 * kTries);
}

}  // namespace ccoll
