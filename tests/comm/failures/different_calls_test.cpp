// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/different_calls.hpp"

#include <catch2/catch.hpp>

#include "schedule/problem.hpp"

namespace ccoll {
namespace {

/// Rank 3's call 5 and rank 1's, which are alike, found different by their counts.
DifferentCalls alike() {
  Signature signature;
  signature.count = 2;
  return {{3, 5, signature}, {1, 5, signature}, "counts differ"};
}

}  // namespace

TEST_CASE("different calls: those that sound different are described, whatever showed it",
          "[comm][unit]") {
  auto calls = alike();
  calls.mine.note = note_of("loss", "");
  calls.theirs.signature.kind = static_cast<std::uint8_t>(Kind::barrier);
  CHECK(calls.text() == describe_mismatch(calls.mine, calls.theirs));
  // So are equal calls with different numbers.
  calls.theirs = {1, 6, calls.mine.signature};
  CHECK(calls.text() == describe_mismatch(calls.mine, calls.theirs));
}

TEST_CASE("different calls: those alike keep what was found, with the labels that are known",
          "[comm][unit]") {
  auto calls = alike();
  CHECK(calls.text() == "counts differ");
  calls.theirs.note = note_of("two\nlines", "");
  CHECK(calls.text() == "counts differ; rank 1 calls it \"two\\nlines\"");
  calls.mine.note = note_of("loss", "clip");
  CHECK(calls.text() == "counts differ; rank 3 calls it \"loss\"; rank 1 calls it \"two\\nlines\"");
  // The name of a reduction is no label.
  calls.theirs.note = note_of("", "clip");
  CHECK(calls.text() == "counts differ; rank 3 calls it \"loss\"");
}

}  // namespace ccoll
