// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/widening.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "comm/call/call.hpp"
#include "comm/scattered.hpp"

namespace ccoll::test {
namespace {

constexpr DataType kNarrow[] = {DataType::float16, DataType::float8_e4m3, DataType::float8_e5m2};
constexpr Kind kReducing[] = {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter};

Call average_of(Kind kind, DataType type, std::size_t count = 0) {
  Call call;
  call.kind = kind;
  call.type = type;
  call.count = count;
  call.op = ReduceOp::avg;
  return call;
}

Problem problem_of(const Call& call, Rank size) {
  Problem problem;
  problem.kind = call.kind;
  problem.size = size;
  problem.count = call.count;
  problem.root = call.root;
  return problem;
}

TypedChoice chosen_for(const Call& call, Rank size, const CostTable& costs = {},
                       const Forced& forced = {}) {
  return choose_for(call, problem_of(call, size), costs, forced);
}

/// An average over 2 to 40 ranks, of any size.
struct SomeAverage {
  Call call;
  Rank size;
  CostTable costs;

  explicit SomeAverage(std::mt19937_64& random)
      : call(average_of(kReducing[random() % 3], kNarrow[random() % 3],
                        std::size_t{1} << random() % 24)),
        size(static_cast<Rank>(2 + random() % 39)) {
    call.root = static_cast<Rank>(random() % size);
    costs.links.latency_ns = std::pow(10, static_cast<double>(random() % 6));
    costs.links.bandwidth_bytes_per_s = std::pow(10, static_cast<double>(8 + random() % 4));
    costs.reduce_bytes_per_s = std::pow(10, static_cast<double>(8 + random() % 4));
  }
};

/// All elements as float32, one by one.
template <typename T>
std::vector<float> widened(const Bytes& elements) {
  std::vector<float> wide(elements.size() / sizeof(T));
  for (std::size_t i = 0; i < wide.size(); i++) {
    T value;
    std::memcpy(&value, elements.data() + i * sizeof(T), sizeof value);
    wide[i] = element::widen(value);
  }
  return wide;
}

template <typename T>
Bytes narrowed(const std::vector<float>& wide) {
  Bytes elements(wide.size() * sizeof(T));
  for (std::size_t i = 0; i < wide.size(); i++) {
    const auto value = element::narrow<T>(wide[i]);
    std::memcpy(elements.data() + i * sizeof(T), &value, sizeof value);
  }
  return elements;
}

bool are_alike(const float* got, const std::vector<float>& expected) {
  const auto bytes = expected.size() * sizeof(float);
  return bytes == 0 || std::memcmp(got, expected.data(), bytes) == 0;
}

template <typename T>
void check_conversion(std::mt19937_64& random) {
  const auto size = static_cast<Rank>(1 + random() % 4), rank = static_cast<Rank>(random() % size);
  auto call = average_of(kReducing[random() % 3], data_type_of<T>, random() % 60);
  call.root = static_cast<Rank>(random() % size);
  const auto in_elems = elems_of(call, Buffer::input, rank, size);
  const auto out_elems = elems_of(call, Buffer::output, rank, size);
  Scattered input(in_elems, sizeof(T), random), output(out_elems, sizeof(T), random);
  const bool same = in_elems == out_elems && random() % 2 == 0;
  auto& written = same ? input : output;
  PlanRun run;
  run.input = input.view();
  run.output = written.view();
  run.in_place = same;
  const auto widening = Widening::make(call, rank, size, run);
  REQUIRE(widening);
  CAPTURE(to_string(call.kind), to_string(call.type), call.count, rank, size, call.root, same);
  CHECK(run.in_place == (in_elems == out_elems));
  CHECK((run.input.data == run.output.data) == run.in_place);
  CHECK(run.input.segments.empty());
  CHECK(run.output.segments.empty());
  auto* const in = reinterpret_cast<float*>(run.input.data);
  auto* const out = reinterpret_cast<float*>(run.output.data);

  // A repeated call converts anew.
  for (int time = 0; time < 2; time++) {
    const auto elements = random_bytes(in_elems * sizeof(T), random);
    input.set(elements);
    widening->widen();
    CHECK(are_alike(in, widened<T>(elements)));
    CHECK(input.elements() == elements);
    std::vector<float> results(out_elems);
    for (auto& each : results)
      each = element::bits_as<float>(static_cast<std::uint32_t>(random() >> random() % 8));
    std::ranges::copy(results, out);
    // The results leave the input alone where they have a place of their own.
    if (!run.in_place) CHECK(are_alike(in, widened<T>(elements)));
    widening->narrow();
    CHECK(written.elements() == narrowed<T>(results));
    if (!same) CHECK(input.elements() == elements);
    CHECK(input.gaps_are_whole());
    CHECK(output.gaps_are_whole());
  }
}

}  // namespace

TEST_CASE("widening: only averages of types with less range than float32 need it", "[comm][unit]") {
  for (const auto type : kDataTypes)
    for (const auto op : kReduceOps)
      for (int kind = 0; kind < static_cast<int>(Kind::barrier); kind++) {
        auto call = average_of(static_cast<Kind>(kind), type);
        call.op = op;
        CAPTURE(to_string(type), to_string(op), to_string(call.kind));
        CHECK(averages_narrow_floats(call) ==
              (op == ReduceOp::avg && std::ranges::count(kNarrow, type) == 1 &&
               std::ranges::count(kReducing, call.kind) == 1));
      }
  auto call = average_of(Kind::all_reduce, DataType::float16);
  call.op = Reduction::premultiplied_sum(0.5);
  CHECK_FALSE(averages_narrow_floats(call));
  call.op = Reduction::custom([](const void*, void*, std::size_t, DataType) {}, {.name = "mine"});
  CHECK_FALSE(averages_narrow_floats(call));
}

TEST_CASE("widening: an algorithm that combines all in one step does without", "[comm][unit]") {
  const auto call = average_of(Kind::all_reduce, DataType::float16);
  CHECK_FALSE(is_widened(call, Algorithm::one_shot, 8));
  CHECK_FALSE(is_widened(call, Algorithm::two_shot, 8));
  CHECK(is_widened(call, Algorithm::ring, 8));
  CHECK(is_widened(call, Algorithm::recursive_doubling, 8));
  // Two contributions are combined in one step by whatever algorithm.
  CHECK_FALSE(is_widened(call, Algorithm::ring, 2));
  auto sum = call;
  sum.op = ReduceOp::sum;
  CHECK_FALSE(is_widened(sum, Algorithm::ring, 8));
}

TEST_CASE("widening: the chosen elements are float32 exactly if the algorithm needs it",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  int wide = 0, narrow = 0;
  for (int i = 0; i < 300; i++) {
    const SomeAverage some(random);
    CAPTURE(seed, i, to_string(some.call.kind), some.call.count, some.size);
    const auto chosen = chosen_for(some.call, some.size, some.costs);
    const auto algorithm = chosen.chosen.choice.algorithm;
    const bool is_wide = is_widened(some.call, algorithm, some.size);
    CHECK(chosen.type == (is_wide ? DataType::float32 : some.call.type));
    (is_wide ? wide : narrow)++;

    // A wish is met, in the type that it needs.
    const auto all = algorithms_for(some.call.kind);
    const Forced forced{.algorithm = all[random() % all.size()], .max_lanes = {}};
    const auto wished = chosen_for(some.call, some.size, some.costs, forced);
    if (!choose(problem_of(some.call, some.size), sizeof(float), some.costs, forced).is_wish_met)
      continue;
    CHECK(wished.chosen.choice.algorithm == *forced.algorithm);
    CHECK(wished.type == (is_widened(some.call, *forced.algorithm, some.size) ? DataType::float32
                                                                              : some.call.type));
  }
  // Both are worth their while.
  CHECK(wide > 0);
  CHECK(narrow > 0);
}

TEST_CASE("widening: float32 is chosen only if it takes less time with the conversion",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; i++) {
    const SomeAverage some(random);
    CAPTURE(seed, i, to_string(some.call.kind), some.call.count, some.size);
    const auto problem = problem_of(some.call, some.size);
    const auto ns = [](const Chosen& chosen) { return chosen.candidates.front().predicted_ns; };
    const auto wide = choose(problem, sizeof(float), some.costs);
    const auto at_once = choose(problem, size_of(some.call.type), some.costs,
                                {.algorithm = {}, .max_lanes = {}, .order = CombineOrder::at_once});
    // Each element of the input is converted, and each of the results.
    const auto elems = static_cast<double>(elems_of(some.call, Buffer::input, 0, some.size));
    const auto conversion = 2 * elems * sizeof(float) / some.costs.reduce_bytes_per_s * 1e9;
    const bool pays = is_widened(some.call, wide.choice.algorithm, some.size) &&
                      ns(wide) + conversion < ns(at_once);
    const auto chosen = chosen_for(some.call, some.size, some.costs);
    CHECK(chosen.type == (pays ? DataType::float32 : some.call.type));
    CHECK(chosen.chosen.choice == (pays ? wide.choice : at_once.choice));
  }
}

TEST_CASE("widening: other calls are chosen as they are", "[comm][unit]") {
  auto call = average_of(Kind::all_reduce, DataType::bfloat16, 1 << 20);
  const auto check = [&] {
    const auto chosen = chosen_for(call, 8);
    CHECK(chosen.type == call.type);
    CHECK(chosen.chosen.choice == choose(problem_of(call, 8), size_of(call.type), {}).choice);
  };
  check();
  call.type = DataType::float16;
  call.op = ReduceOp::sum;
  check();
}

TEST_CASE("widening: the run has float32, and each result is rounded once", "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 100; i++) {
    check_conversion<float16>(random);
    check_conversion<float8_e4m3>(random);
    check_conversion<float8_e5m2>(random);
  }
}

}  // namespace ccoll::test
