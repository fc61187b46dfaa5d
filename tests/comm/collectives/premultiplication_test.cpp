// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/premultiplication.hpp"

#include <catch2/catch.hpp>

#include "comm/call/call.hpp"
#include "comm/scattered.hpp"

namespace ccoll::test {
namespace {

/// All elements times the factor, one by one.
template <typename T>
Bytes products_of(const Bytes& elements, T factor) {
  // A factor is known as a real and as a whole number; the type tells which of the two counts.
  element::Factor known;
  if constexpr (std::is_floating_point_v<element::Accumulator<T>>)
    known.real = element::widen(factor);
  else
    known.whole = static_cast<std::uint64_t>(factor);
  Bytes products(elements.size());
  for (std::size_t at = 0; at < elements.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, elements.data() + at, sizeof value);
    value = element::scale(value, known);
    std::memcpy(products.data() + at, &value, sizeof value);
  }
  return products;
}

/// A factor that is not a NaN: those have no number.
template <typename T>
T random_factor(std::mt19937_64& random) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(random());
  else
    return element::narrow<T>(static_cast<element::Accumulator<T>>(
        (static_cast<double>(random() % 2001) - 1000) / static_cast<double>(1 + random() % 64)));
}

/// A call that multiplies, on rank `rank` of `size`.
struct Multiplying {
  Call call;
  Rank rank = 0, size = 1;

  Multiplying(DataType type, std::mt19937_64& random) {
    constexpr Kind kKinds[] = {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter};
    call.kind = kKinds[random() % std::size(kKinds)];
    call.type = type;
    call.count = random() % 60;
    size = static_cast<Rank>(1 + random() % 4);
    rank = static_cast<Rank>(random() % size);
    call.root = static_cast<Rank>(random() % size);
  }
  std::size_t elems(Buffer buffer) const { return elems_of(call, buffer, rank, size); }
};

template <typename T>
void check_products(std::mt19937_64& random) {
  Multiplying made(data_type_of<T>, random);
  auto& call = made.call;
  auto factor = random_factor<T>(random);
  // The place of a factor that comes later has another one when the run is made.
  const bool comes_later = random() % 2 == 0;
  auto place = comes_later ? random_factor<T>(random) : factor;
  call.op = comes_later ? Reduction::premultiplied_sum_at(&place, call.type)
                        : Reduction::premultiplied_sum(factor);
  Scattered input(made.elems(Buffer::input), sizeof(T), random);
  Scattered output(made.elems(Buffer::output), sizeof(T), random);
  const bool same = random() % 2 == 0 && made.elems(Buffer::output) == made.elems(Buffer::input);
  auto& written = same ? input : output;
  PlanRun run;
  run.input = input.view();
  run.output = written.view();
  run.in_place = same;
  CAPTURE(to_string(call.kind), to_string(call.type), call.count, made.rank, made.size, call.root,
          same, comes_later);
  const auto multiply = Premultiplication::make(call, made.rank, made.size, run);
  REQUIRE(multiply);
  // The output has the products, unless it is shorter, another's, or in several pieces.
  const bool has_room =
      call.kind == Kind::all_reduce || (call.kind == Kind::reduce && made.rank == call.root);
  CHECK(run.in_place == (has_room && written.view().segments.empty()));
  CHECK((run.input.data == run.output.data) == run.in_place);
  CHECK(run.input.segments.empty());
  CHECK(run.output.data == written.view().data);

  // A repeated call multiplies anew.
  for (int time = 0; time < 2; time++) {
    const auto elements = random_bytes(input.elements().size(), random);
    input.set(elements);
    if (comes_later) place = factor = random_factor<T>(random);
    (*multiply)();
    CHECK(Bytes(run.input.data, run.input.data + elements.size()) == products_of(elements, factor));
    if (!same || !run.in_place) CHECK(input.elements() == elements);
    CHECK(input.gaps_are_whole());
    CHECK(output.gaps_are_whole());
  }
}

}  // namespace

TEST_CASE("premultiplication: the run reads each element of the input times the factor",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const auto type : kDataTypes) {
    if (type == DataType::boolean) continue;
    for (int i = 0; i < 60; i++)
      element::with_type(type, [&](auto element) {
        using T = decltype(element);
        if constexpr (!std::is_same_v<T, element::Bool>) check_products<T>(random);
      });
  }
}

}  // namespace ccoll::test
