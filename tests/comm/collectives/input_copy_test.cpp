// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/input_copy.hpp"

#include <catch2/catch.hpp>

#include "comm/call/call.hpp"
#include "comm/scattered.hpp"

namespace ccoll::test {

TEST_CASE("input copy: the call reads what the input was when it was copied, wherever that lies",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; i++) {
    Call call;
    call.kind = Kind::all_to_all;
    call.in_place = true;
    call.type = kDataTypes[random() % std::size(kDataTypes)];
    const auto size = static_cast<Rank>(1 + random() % 5),
               rank = static_cast<Rank>(random() % size);
    if (random() % 2 == 0) {
      call.count = random() % 30;
    } else {
      for (Rank block = 0; block < size; block++) call.block_counts.push_back(random() % 30);
    }
    Scattered input(elems_of(call, Buffer::input, rank, size), size_of(call.type), random);
    PlanRun run;
    run.input = run.output = input.view();
    run.in_place = true;
    const auto copy = InputCopy::make(call, rank, size, run);
    REQUIRE(copy);
    CHECK_FALSE(run.in_place);
    CHECK(run.input.segments.empty());
    CHECK(run.output.data == input.view().data);

    // A repeated call copies anew.
    for (int time = 0; time < 2; time++) {
      const auto expected = random_bytes(input.elements().size(), random);
      input.set(expected);
      (*copy)();
      CHECK(input.elements() == expected);
      CHECK(input.gaps_are_whole());
      // The call writes its output, which is where the input was.
      input.set(random_bytes(expected.size(), random));
      CHECK(Bytes(run.input.data, run.input.data + expected.size()) == expected);
    }
  }
}

TEST_CASE("input copy: only an all_to_all in place needs one", "[comm][unit]") {
  for (int kind = 0; kind <= static_cast<int>(Kind::barrier); kind++) {
    Call call;
    call.kind = static_cast<Kind>(kind);
    CHECK_FALSE(needs_input_copy(call));
    call.in_place = true;
    CHECK(needs_input_copy(call) == (call.kind == Kind::all_to_all));
  }
}

}  // namespace ccoll::test
