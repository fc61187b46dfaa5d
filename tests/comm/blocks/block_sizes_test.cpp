// SPDX-License-Identifier: Apache-2.0
// Sizes of blocks that cannot be, or on which ranks differ: they are refused, and ranks are told.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <limits>
#include <numeric>

#include "comm/on_transports.hpp"
#include "schedule/problem.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::expect;
using testing::message_of;
using testing::on_all_transports;
using testing::options_for;
using testing::run_ranks;

namespace {

using Values = std::vector<std::int32_t>;
using Counts = std::vector<std::size_t>;

/// A v-operation with one-element blocks, except for the block from rank 1 to rank 0.
void exchange(Communicator& communicator, Kind kind, std::size_t sent, std::size_t expected) {
  const auto n = static_cast<std::size_t>(communicator.size());
  const auto me = static_cast<std::size_t>(communicator.rank());
  Values in(n + sent, 1), out(n + expected);
  Counts to(n, 1), from(n, 1);
  if (me == 1) to[0] = sent;
  if (me == 0) from[1] = expected;
  const auto cut = [](Values& values, const Counts& counts) {
    return std::span(values).first(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  };
  if (kind == Kind::all_to_all)
    communicator.all_to_all_v(const_blocks(cut(in, to), to), blocks(cut(out, from), from));
  if (kind == Kind::gather)
    communicator.gather_v(std::span(in).first(to[0]), blocks(cut(out, from), from), 0);
  if (kind == Kind::scatter)
    communicator.scatter_v(const_blocks(cut(in, to), to), std::span(out).first(from[1]), 1);
}

}  // namespace

TEST_CASE("blocks: what does not fit is refused before anything is sent", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    const auto refuse = [](const std::string& got, const std::string& wanted) {
      expect(got == "invalid_argument: " + wanted, got);
    };
    Values a(8), b(8);
    std::vector<float> floats(8);
    const auto me = communicator.rank();
    const auto part = [](Values& of, std::size_t first, std::size_t count) {
      return std::span(of).subspan(first, count);
    };
    const std::vector<ConstBlock> in = {part(a, 0, 4), part(a, 4, 4)};
    const std::vector<Block> out = {part(b, 0, 4), part(b, 4, 4)};
    refuse(message_of([&] { communicator.all_to_all_v(in, std::span(out).first(1)); }),
           "all_to_all_v: 1 output blocks are given, 2 are expected");
    refuse(message_of([&] {
             communicator.all_to_all_v(in, std::vector<Block>{out[0], std::span(floats)});
           }),
           "all_to_all_v: output block 1 is of float32, the first block of the call is of int32");
    refuse(message_of([&] {
             communicator.all_to_all_v(in, std::vector<Block>{part(b, 0, 3), part(b, 3, 3)});
           }),
           fmt::format("all_to_all_v: input block {} has 4 elements, output block {} 3; they are "
                       "this rank's own and must be equal",
                       me, me));
    refuse(message_of([&] {
             communicator.all_to_all_v(in, std::vector<Block>{out[0], out[0]});
           }),
           "all_to_all_v: parts of the output overlap each other");
    refuse(message_of([&] {
             communicator.all_gather_v(part(b, 1, 4), std::vector<Block>{out[0], part(a, 0, 4)});
           }),
           "all_gather_v: input and output overlap, but this rank's own data does not lie at the "
           "same address, in the same rows, in both");
    refuse(message_of([&] {
             communicator.all_gather_v(
                 part(a, 0, 4), std::vector<Block>{Block(nullptr, 4, DataType::int32), out[1]});
           }),
           "all_gather_v: output block 0 is null, 4 elements are expected there");
    refuse(message_of([&] { communicator.gather_v(in[0], out, 2); }),
           "gather_v: root 2 is not one of 2 ranks: expected 0 to 1");
    refuse(message_of([&] {
             communicator.all_reduce(std::vector<BufferPair>{std::span(a), std::span(floats)});
           }),
           "all_reduce of several buffers: buffer 1 is of float32, buffer 0 of int32; one call has "
           "one type");
    refuse(message_of([&] { communicator.gather_bytes("x", -1); }),
           "gather_bytes: root -1 is not one of 2 ranks: expected 0 to 1");
    // Only rank 0 calls: on rank 1 the next call would not match that of the lengths.
    if (me == 0) {
      CallOptions late, odd;
      late.timeout = -1ms;
      odd.algorithm = "odd";
      refuse(message_of([&] { communicator.all_gather_bytes("x", late); }),
             "all_gather_bytes: a time limit of -1 ms; it must be 0 or more");
      const auto unknown = message_of([&] { communicator.broadcast_bytes("x", 1, odd); });
      expect(unknown.starts_with("invalid_argument: broadcast: no algorithm 'odd'"), unknown);
      refuse(message_of([&] { communicator.gather_bytes(std::string_view("x", SIZE_MAX / 2), 1); }),
             fmt::format("gather_bytes: {} bytes from each rank are more than memory can hold",
                         SIZE_MAX / 2));
    }
    refuse(message_of([&] {
             blocks(a, {4, 5});
           }),
           "blocks: the buffer has 8 elements, the counts are 9 together");
    refuse(message_of([&] {
             const_blocks(a, {4, 3});
           }),
           "blocks: the buffer has 8 elements, the counts are 7 together");
    refuse(message_of([&] { blocks(a, std::vector{9, -1}); }), "blocks: the count of rank 1 is -1");
    refuse(message_of([&] { blocks(a, Counts(3, std::numeric_limits<std::int64_t>::max())); }),
           "blocks: the counts are more together than memory can hold");
    communicator.all_to_all_v(in, out);  // and nothing is broken
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("blocks: two ranks whose sizes for each other differ are told so", "[comm]") {
  struct Sizes {
    std::size_t sent, expected;
  };
  // Includes empty blocks and blocks that differ by whole slices.
  const auto [sent, expected] = GENERATE(Sizes{3, 0}, Sizes{0, 3}, Sizes{3, 2},
                                         Sizes{1 << 20, 1 << 19}, Sizes{1 << 19, 1 << 20});
  for (const auto& transport : testing::usable_transports()) {
    for (const auto kind : {Kind::all_to_all, Kind::gather, Kind::scatter}) {
      CAPTURE(transport.name, to_string(kind), sent, expected);
      const auto errors = run_ranks(3, options_for(transport.name), [&](Communicator& world) {
        exchange(world, kind, sent, expected);
        world.barrier();
      });
      for (const auto& error : errors)
        CHECK_THAT(error, Contains(fmt::format("rank 1 sends {} elements to rank 0, which expects "
                                               "{}: their counts for each other differ",
                                               sent, expected)));
    }
  }
}

TEST_CASE("blocks: sizes that differ in the last call are told to all as they close", "[comm]") {
  struct Sizes {
    std::size_t sent, expected;
  };
  const auto [sent, expected] = GENERATE(Sizes{3, 0}, Sizes{0, 3}, Sizes{3, 2});
  const int ranks = GENERATE(2, 4, 7);
  for (const auto& transport : testing::usable_transports()) {
    for (const auto kind : {Kind::all_to_all, Kind::gather, Kind::scatter}) {
      CAPTURE(transport.name, to_string(kind), sent, expected, ranks);
      const auto errors = run_ranks(ranks, options_for(transport.name), [&](Communicator& world) {
        exchange(world, kind, sent, expected);
        // Rank 0 finds the mismatch. The others wait for nothing, so they hear of it at close.
        if (world.rank() == 0) testing::be_late(std::chrono::milliseconds(50));
        world.close();
      });
      for (const auto& error : errors)
        CHECK_THAT(error, Contains(fmt::format("rank 1 sends {} elements to rank 0, which expects "
                                               "{}: their counts for each other differ",
                                               sent, expected)));
    }
  }
}

TEST_CASE("blocks: among many ranks, too, counts that differ are told to all, in the call",
          "[comm]") {
  // There are more ranks than announce empty blocks to each other.
  constexpr int kRanks = 66;
  struct Sizes {
    int sent, expected;
  };
  const auto [sent, expected] = GENERATE(Sizes{2, 2}, Sizes{2, 0}, Sizes{0, 2}, Sizes{2, 3});
  CAPTURE(sent, expected);
  const auto run = [&](Communicator& communicator) {
    const int me = communicator.rank();
    const auto exchange = [&](int out_of_1, int into_0) {
      Counts to(kRanks, 0), from(kRanks, 0);
      // Ranks 2 and 3 exchange an element; the others send nothing.
      if (me == 2 || me == 3) to[5 - std::size_t(me)] = from[5 - std::size_t(me)] = 1;
      if (me == 1) to[0] = out_of_1;
      if (me == 0) from[1] = into_0;
      Values in(8, me), out(8, -1);
      const auto cut = [](Values& values, const Counts& counts) {
        return std::span(values).first(
            std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
      };
      communicator.all_to_all_v(const_blocks(cut(in, to), to), blocks(cut(out, from), from));
      const int wanted = me == 0 && into_0 > 0 ? 1 : me == 2 ? 3 : me == 3 ? 2 : -1;
      expect(out[0] == wanted, fmt::format("{} is in place of {}", out[0], wanted));
    };
    exchange(3, 3);
    exchange(0, 0);
    exchange(sent, expected);
  };
  const bool named = testing::holds_at_last([&] {
    const auto culprits =
        fmt::format("rank 1 sends {} elements to rank 0, which expects {}", sent, expected);
    bool all_named = true;
    for (const auto& error : run_ranks(kRanks, options_for("inproc"), run)) {
      if (sent == expected) {
        CHECK(error == "");
        continue;
      }
      CHECK_THAT(error, Contains("all_to_all_v of int32 (call 2): "));
      CHECK_THAT(error, Contains("their counts for each other differ"));
      // A rank that has not sent anything looks like one that is late.
      if (sent > 0) all_named &= error.find(culprits) != std::string::npos;
    }
    return all_named;
  });
  CHECK(named);
}

TEST_CASE("blocks: ranks that disagree about sizes are told so", "[comm]") {
  const auto run = [](const std::function<void(Communicator&, Values&, Values&)>& call) {
    return run_ranks(2, options_for("tcp"), [&](Communicator& communicator) {
      Values in(16, 1), out(16);
      call(communicator, in, out);
    });
  };
  SECTION("sizes that all ranks give") {
    const auto errors = run([](Communicator& communicator, Values& in, Values& out) {
      const Counts counts = communicator.rank() == 0 ? Counts{2, 4} : Counts{3, 3};  // the same sum
      const auto mine = counts[static_cast<std::size_t>(communicator.rank())];
      communicator.all_gather_v(std::span(in).first(mine), blocks(std::span(out).first(6), counts));
    });
    for (const auto& error : errors) {
      CHECK_THAT(error, Contains("ranks call different things"));
      CHECK_THAT(error, Contains("all_gather_v of 6 int32 (call 0); the sizes differ"));
    }
  }
  SECTION("sizes that only two ranks know") {
    const auto errors = run([](Communicator& communicator, Values& in, Values& out) {
      const Counts counts = communicator.rank() == 0 ? Counts{1, 5} : Counts{4, 1};
      communicator.all_to_all_v(const_blocks(std::span(in).first(counts[0] + counts[1]), counts),
                                blocks(std::span(out).first(counts[0] + counts[1]), counts));
    });
    for (const auto& error : errors) {
      CHECK_THAT(error, Contains("all_to_all_v of int32 (call 0)"));
      CHECK_THAT(error, Contains("their counts for each other differ"));
    }
  }
  SECTION("buffers cut differently") {
    const auto errors = run([](Communicator& communicator, Values& in, Values&) {
      const std::size_t first = communicator.rank() == 0 ? 4 : 8;
      communicator.all_reduce(
          std::vector<BufferPair>{std::span(in).first(first), std::span(in).subspan(first)});
    });
    for (const auto& error : errors)
      CHECK_THAT(error,
                 Contains("all_reduce of several buffers, together 16 int32, sum (call 0); the "
                          "sizes differ"));
  }
}
