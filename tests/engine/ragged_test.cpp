// SPDX-License-Identifier: Apache-2.0
// Blocks of different sizes over real in-process links arrive as they were sent.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include "inproc_ranks.hpp"
#include "support/effort.hpp"

using namespace ccoll;
using ccoll::test::Links;

namespace {

using Values = std::vector<std::int32_t>;

/// The number of elements from rank `from` to rank `to`: the size of its input's block `to`
/// (all_gather, gather: of its only block).
std::uint64_t elems_between(const Problem& whole, Rank from, Rank to) {
  switch (whole.kind) {
    case Kind::all_to_all:
      return whole.block_counts[std::size_t{from} * whole.size + to];
    case Kind::all_gather:
    case Kind::gather:
      return whole.block_counts[from];
    default:
      return whole.block_counts[to];
  }
}

std::int32_t value(Rank from, Rank to, std::uint64_t i) {
  return static_cast<std::int32_t>(from * 1'000'000 + to * 10'000 + i % 10'000);
}

/// The inputs according to the operation's definition, block by block.
Values input_of(const Problem& whole, Rank rank) {
  Values input;
  if (whole.kind == Kind::scatter && rank != whole.root) return input;
  const bool one_block = whole.kind == Kind::all_gather || whole.kind == Kind::gather;
  for (Rank to = 0; to < (one_block ? 1 : whole.size); to++)
    for (std::uint64_t i = 0; i < elems_between(whole, rank, to); i++)
      input.push_back(value(rank, to, i));
  return input;
}

Values output_of(const Problem& whole, Rank rank) {
  Values output;
  if (whole.kind == Kind::gather && rank != whole.root) return output;
  if (whole.kind == Kind::scatter || whole.kind == Kind::reduce_scatter) {
    for (std::uint64_t i = 0; i < whole.block_counts[rank]; i++) {
      std::int32_t sum = 0;
      for (Rank from = 0; from < whole.size; from++)
        if (whole.kind == Kind::reduce_scatter || from == whole.root) sum += value(from, rank, i);
      output.push_back(sum);
    }
    return output;
  }
  for (Rank from = 0; from < whole.size; from++)
    for (std::uint64_t i = 0; i < elems_between(whole, from, rank); i++)
      output.push_back(value(from, whole.kind == Kind::all_to_all ? rank : 0, i));
  return output;
}

/// The same operation with other block sizes.
Problem with_random_sizes(Problem whole, std::mt19937_64& random) {
  const std::size_t n = whole.size;
  const auto largest = random() % 4 == 0 ? 500U : 7U;
  whole.block_counts.clear();
  for (std::size_t i = 0; i < (whole.kind == Kind::all_to_all ? n * n : n); i++)
    whole.block_counts.push_back(random() % 3 == 0 ? 0 : random() % largest);
  return whole;
}

Problem random_problem(Kind kind, std::mt19937_64& random) {
  Problem whole;
  whole.kind = kind;
  whole.size = static_cast<Rank>(1 + random() % 33);
  if (kind == Kind::gather || kind == Kind::scatter)
    whole.root = static_cast<Rank>(random() % whole.size);
  return with_random_sizes(std::move(whole), random);
}

}  // namespace

TEST_CASE("plan: ragged blocks arrive whole and in their places", "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const int draws = testing::reduced() ? 4 : 40;
  for (const auto& entry : catalogue()) {
    if (!entry.ragged) continue;
    for (int draw = 0; draw < draws; draw++) {
      auto whole = random_problem(entry.kind, random);
      const Choice choice{entry.algorithm, static_cast<std::uint16_t>(1 + random() % 2),
                          1 + random() % 40};
      CAPTURE(seed, draw, to_string(entry.kind), to_string(entry.algorithm), whole.size, whole.root,
              choice.slice_elems);
      Links links(whole.size, random());
      auto plans = test::make_plans(whole, choice, DataType::int32, links);
      // A plan is reused, also with other block sizes.
      for (std::uint64_t call = 0; call < 4; call++) {
        const bool other_sizes = call >= 2;
        if (other_sizes) whole = with_random_sizes(whole, random);
        std::vector<Values> inputs, outputs;
        std::vector<PlanRun> runs(whole.size);
        for (Rank rank = 0; rank < whole.size; rank++) {
          inputs.push_back(input_of(whole, rank));
          outputs.emplace_back(output_of(whole, rank).size() + 1, -1);
          runs[rank].input.data = reinterpret_cast<std::byte*>(inputs.back().data());
          runs[rank].output.data = reinterpret_cast<std::byte*>(outputs.back().data());
          runs[rank].sequence = call;
          if (other_sizes) {
            const auto view = view_of(whole, rank);
            runs[rank].block_counts = view.block_counts;
            runs[rank].output_counts = view.output_counts;
          }
          plans[rank]->start(runs[rank]);
        }
        test::run_to_end(plans, random);
        for (Rank rank = 0; rank < whole.size; rank++) {
          CAPTURE(rank);
          CHECK(outputs[rank].back() == -1);
          outputs[rank].pop_back();
          CHECK(outputs[rank] == output_of(whole, rank));
        }
      }
    }
  }
}
