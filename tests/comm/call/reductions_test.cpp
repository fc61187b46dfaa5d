// SPDX-License-Identifier: Apache-2.0
// Every type with every operation, by random algorithms, against the scalar definitions.
#include "comm/call/reductions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>

#include "algorithms/algorithms.hpp"
#include "core/element.hpp"
#include "support/effort.hpp"
#include "support/float_state.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using testing::expect;
using testing::run_ranks;

namespace {

using Raw = std::vector<std::byte>;

/// Whether all contributions are combined, and rounded, in one step.
bool rounds_once(Algorithm algorithm) {
  return algorithm == Algorithm::one_shot || algorithm == Algorithm::two_shot ||
         algorithm == Algorithm::linear;
}

/// Arbitrary bits if the result is rounded once. Otherwise floats are chosen such that nothing is
/// rounded, since any order of combining must give the same result.
Raw make_input(DataType type, std::size_t count, bool any_bits, std::mt19937_64& random) {
  Raw bytes(count * size_of(type));
  element::with_type(type, [&]<typename T>(T value) {
    constexpr double kNumbers[] = {0, -1, 1, -2, 2};
    for (std::size_t i = 0; i < count; i++) {
      const auto bits = random();
      std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
      if constexpr (std::is_floating_point_v<element::Accumulator<T>>)
        if (!any_bits)
          value = element::narrow<T>(
              static_cast<element::Accumulator<T>>(kNumbers[bits % std::size(kNumbers)]));
      std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
    }
  });
  return bytes;
}

Raw combined(DataType type, ReduceOp op, const std::vector<Raw>& inputs) {
  Raw result(inputs[0].size());
  element::with_type(type, [&]<typename T>(T value) {
    std::vector<T> contributions(inputs.size());
    for (std::size_t at = 0; at < result.size(); at += sizeof(T)) {
      for (std::size_t rank = 0; rank < inputs.size(); rank++)
        std::memcpy(static_cast<void*>(&contributions[rank]), &inputs[rank][at], sizeof(T));
      const auto ranks = static_cast<std::uint32_t>(inputs.size());
      value = element::combine(op, contributions.data(), inputs.size(),
                               op == ReduceOp::avg ? ranks : 1);
      std::memcpy(&result[at], &value, sizeof(T));
    }
  });
  return result;
}

struct Case {
  const CatalogueEntry* entry;
  DataType type;
  ReduceOp op;
  std::size_t count;
  int root;

  std::string text() const {
    return fmt::format("{} by {} of {} {}, {}, root {}", to_string(entry->kind),
                       to_string(entry->algorithm), count, to_string(type), to_string(op), root);
  }
};

bool takes_reduction(Kind kind) { return reduces(kind) && kind != Kind::barrier; }

Case random_case(int size, std::mt19937_64& random) {
  const auto any = [&](const auto& from) { return from[random() % from.size()]; };
  Case made{};
  do made.entry = &catalogue()[random() % catalogue().size()];
  while (!takes_reduction(made.entry->kind));
  do made.type = any(kDataTypes), made.op = any(kReduceOps);
  while (!is_defined(made.op, made.type));
  made.count = random() % 3 == 0 ? random() % 5 : random() % 3000;
  made.root = static_cast<int>(random() % static_cast<unsigned>(size));
  return made;
}

/// This rank's result of the call, and the expected one.
std::pair<Raw, Raw> outcome(Communicator& communicator, const Case& made,
                            const std::vector<Raw>& inputs) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const CallOptions options{.timeout = {}, .algorithm = to_string(made.entry->algorithm)};
  const auto expected = combined(made.type, made.op, inputs);
  const auto bytes = made.count * size_of(made.type);
  const auto* input = inputs[rank].data();
  Raw output(bytes);
  if (made.entry->kind == Kind::all_reduce) {
    communicator.all_reduce(ConstBlock(input, made.count, made.type),
                            Block(output.data(), made.count, made.type), made.op, options);
    return {output, expected};
  }
  if (made.entry->kind == Kind::reduce) {
    communicator.reduce(ConstBlock(input, made.count, made.type),
                        Block(output.data(), made.count, made.type), made.op, made.root, options);
    return {output, communicator.rank() == made.root ? expected : Raw(bytes)};
  }
  communicator.reduce_scatter(ConstBlock(input, communicator.size() * made.count, made.type),
                              Block(output.data(), made.count, made.type), made.op, options);
  const auto mine = expected.begin() + static_cast<std::ptrdiff_t>(rank * bytes);
  return {output, Raw(mine, mine + static_cast<std::ptrdiff_t>(bytes))};
}

}  // namespace

namespace {

/// Contributions as they may come: any bits, or numbers of like size, whose sums must be rounded.
template <typename T>
std::vector<T> any_contributions(std::size_t count, std::mt19937_64& random) {
  std::vector<T> made(count);
  const bool any_bits = random() % 2 == 0;
  for (auto& each : made) {
    const auto bits = random();
    std::memcpy(static_cast<void*>(&each), &bits, sizeof each);
    if constexpr (std::is_floating_point_v<element::Accumulator<T>>)
      if (!any_bits)
        each = element::narrow<T>(static_cast<element::Accumulator<T>>(
            static_cast<double>(bits % 1000) / 300 - static_cast<double>(bits % 7)));
  }
  return made;
}

/// Combines any two at a time, until one is left.
template <typename T>
T combined_in_any_order(ReduceOp op, std::vector<T> all, std::mt19937_64& random) {
  const auto count = static_cast<std::uint32_t>(all.size());
  while (all.size() > 1) {
    std::shuffle(all.begin(), all.end(), random);
    all[all.size() - 2] = element::combine(op, &all[all.size() - 2], 2, 1);
    all.pop_back();
  }
  return op == ReduceOp::avg ? element::combine(op, all.data(), 1, count) : all[0];
}

/// Whether some contributions were seen whose result depends on the order of combining.
bool order_shows(DataType type, ReduceOp op, std::mt19937_64& random) {
  bool shows = false;
  element::with_type(type, [&]<typename T>(T) {
    for (int trial = 0; trial < 1000 && !shows; trial++) {
      const auto all = any_contributions<T>(2 + random() % 6, random);
      const auto one = combined_in_any_order(op, all, random);
      const auto other = combined_in_any_order(op, all, random);
      shows = std::memcmp(static_cast<const void*>(&one), &other, sizeof one) != 0;
    }
  });
  return shows;
}

Reduction custom(const std::string& name, bool commutative) {
  const CombineElements nothing = [](const void*, void*, std::size_t, DataType) {};
  return Reduction::custom(nothing, {.name = name, .commutative = commutative});
}

}  // namespace

TEST_CASE("reductions: a deterministic order is asked for just where the order shows in the bits",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const auto type : kDataTypes) {
    for (const auto op : kReduceOps) {
      if (!is_defined(op, type)) continue;
      CAPTURE(to_string(type), to_string(op));
      CHECK(order_of(op, type, false) == CombineOrder::any);
      CHECK((order_of(op, type, true) == CombineOrder::at_once) == order_shows(type, op, random));
    }
    // Nobody knows what the caller's function does.
    for (const bool commutative : {false, true}) {
      const auto own = custom("own", commutative);
      CHECK(order_of(own, type, true) == CombineOrder::at_once);
      CHECK(order_of(own, type, false) ==
            (commutative ? CombineOrder::any : CombineOrder::by_rank));
    }
    const auto scaled = Reduction::premultiplied_sum(2);
    for (const bool deterministic : {false, true})
      CHECK(order_of(scaled, type, deterministic) == order_of(ReduceOp::sum, type, deterministic));
  }
}

TEST_CASE("reductions: signatures are equal just where ranks may combine, whatever the root",
          "[comm][unit][property]") {
  const std::int32_t place = 0;
  // Those of one row may meet each other, and nobody else.
  std::vector<std::vector<Reduction>> rows = {
      {Reduction::premultiplied_sum(0.5), Reduction::premultiplied_sum(-3),
       Reduction::premultiplied_sum_at(&place, DataType::int32)}};
  for (const auto op : kReduceOps) rows.push_back({Reduction(op), Reduction(op)});
  for (const std::string name : {"a", "b", "ab", "ba", "sum", "a long name of the caller's"})
    for (const bool commutative : {false, true})
      rows.push_back({custom(name, commutative), custom(name, commutative)});
  const auto signed_by = [](const Reduction& reduction, std::uint32_t root) {
    Signature signature{.count = 5, .root = root, .kind = 2, .type = 3, .algorithm = 4};
    sign(reduction, signature);
    CHECK(signature.count == 5);
    CHECK(std::array{signature.kind, signature.type, signature.algorithm} ==
          std::array<std::uint8_t, 3>{2, 3, 4});
    return signature;
  };
  for (const std::uint32_t root : {0U, 1U, 77U})
    for (const auto& row : rows)
      for (const auto& one : row) {
        CAPTURE(root, one.text());
        CHECK(kernel_op(one) == (one.custom() ? std::nullopt : std::optional<ReduceOp>(one.op())));
        for (const auto& other_row : rows)
          for (const auto& other : other_row)
            CHECK((signed_by(one, root) == signed_by(other, root)) == (&row == &other_row));
        CHECK_FALSE(signed_by(one, root) == signed_by(one, root + 1));
      }
}

TEST_CASE("reductions: every type and operation equals the scalar definition bit by bit",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  const int cases = testing::by_effort(200, 1'000, 20'000);
  for (const int size : {2, 4}) {
    CommunicatorOptions inproc;
    inproc.transport = "inproc";
    const auto errors = run_ranks(size, inproc, [&](Communicator& communicator) {
      std::mt19937_64 random(seed);  // the same on every rank
      for (int i = 0; i < cases; i++) {
        const auto made = random_case(size, random);
        const auto blocks = made.entry->kind == Kind::reduce_scatter ? size : 1;
        std::vector<Raw> inputs;
        for (int rank = 0; rank < size; rank++)
          inputs.push_back(make_input(made.type, made.count * static_cast<std::size_t>(blocks),
                                      rounds_once(made.entry->algorithm), random));
        const auto [got, expected] = outcome(communicator, made, inputs);
        expect(got == expected, made.text());
      }
    });
    CAPTURE(seed, size);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("reductions: what a type does not have is refused before anything is sent", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    std::uint64_t data[2] = {};
    int refused = 0;
    for (const auto type : kDataTypes) {
      for (const auto op : kReduceOps) {
        if (is_defined(op, type)) continue;
        try {
          communicator.all_reduce(Block(data, 1, type), op);
          expect(false, "accepted");
        } catch (const Error& error) {
          expect(error.kind() == ErrorKind::invalid_argument, error.what());
          const auto start =
              fmt::format("all_reduce: {} is not defined on {};", to_string(op), to_string(type));
          expect(std::string(error.what()).starts_with(start), error.what());
          refused++;
        }
      }
    }
    expect(refused == 19, fmt::format("{} refused", refused));
    communicator.all_reduce(Block(data, 2, DataType::boolean), ReduceOp::bit_xor);
  });
  for (const auto& error : errors) CHECK(error == "");
}

namespace {

/// The factor of each rank: -1, 0, 1, …
double factor_of(int rank) { return rank - 1.0; }

Raw multiplied(DataType type, Raw bytes, int rank) {
  const auto whole = static_cast<std::uint64_t>(rank - 1);
  element::with_type(type, [&]<typename T>(T value) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      std::memcpy(static_cast<void*>(&value), &bytes[at], sizeof(T));
      value = element::scale(value, element::Factor{factor_of(rank), whole});
      std::memcpy(&bytes[at], &value, sizeof(T));
    }
  });
  return bytes;
}

void check_premultiplied(Communicator& communicator, const CatalogueEntry& entry, DataType type,
                         std::mt19937_64& random) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const std::size_t count = random() % 300, bytes = count * size_of(type);
  const bool scatters = entry.kind == Kind::reduce_scatter;
  const int root = 1;
  std::vector<Raw> inputs, products;
  for (int r = 0; r < communicator.size(); r++) {
    const auto blocks = static_cast<std::size_t>(scatters ? communicator.size() : 1);
    inputs.push_back(make_input(type, blocks * count, false, random));
    products.push_back(multiplied(type, inputs.back(), r));
  }
  const auto expected = combined(type, ReduceOp::sum, products);
  auto input = inputs[rank];
  Raw separate(bytes);
  const bool in_place = random() % 2 == 0;
  const auto mine = scatters ? rank * bytes : 0;
  auto* out = in_place ? input.data() + mine : separate.data();
  if (entry.kind == Kind::reduce && communicator.rank() != root) out = nullptr;

  const auto reduction = Reduction::premultiplied_sum(factor_of(communicator.rank()));
  const CallOptions options{.timeout = {}, .algorithm = to_string(entry.algorithm)};
  if (entry.kind == Kind::all_reduce)
    communicator.all_reduce(ConstBlock(input.data(), count, type), Block(out, count, type),
                            reduction, options);
  else if (scatters)
    communicator.reduce_scatter(ConstBlock(input.data(), communicator.size() * count, type),
                                Block(out, count, type), reduction, options);
  else
    communicator.reduce(ConstBlock(input.data(), count, type), Block(out, count, type), reduction,
                        root, options);

  const auto what = fmt::format("{} by {} of {} {}", to_string(entry.kind),
                                to_string(entry.algorithm), count, to_string(type));
  if (out != nullptr)
    expect(std::equal(out, out + bytes, expected.begin() + static_cast<std::ptrdiff_t>(mine)),
           what);
  if (in_place && out != nullptr && bytes > 0) std::memcpy(out, &inputs[rank][mine], bytes);
  expect(input == inputs[rank], fmt::format("{}: input written", what));
}

}  // namespace

TEST_CASE("reductions: each rank's factor is applied once to what it puts in, by every algorithm",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  const auto errors = run_ranks(3, {}, [&](Communicator& communicator) {
    std::mt19937_64 random(seed);  // the same on every rank
    for (const auto& entry : catalogue())
      for (const auto type : kDataTypes)
        if (takes_reduction(entry.kind) && type != DataType::boolean)
          check_premultiplied(communicator, entry, type, random);
  });
  CAPTURE(seed);
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("reductions: a factor must suit the type", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    std::vector<std::int32_t> data = {5, 7};
    const auto refusal = [&](DataType type, const Reduction& reduction) -> std::string {
      try {
        communicator.all_reduce(Block(data.data(), 1, type), reduction);
      } catch (const Error& error) {
        expect(error.kind() == ErrorKind::invalid_argument, error.what());
        return error.what();
      }
      return "accepted";
    };
    const auto half = Reduction::premultiplied_sum(0.5);
    expect(refusal(DataType::int32, half) ==
               "all_reduce: premultiplied_sum by 0.5 of int32: the factor must be a whole number",
           "a fraction of an integer");
    for (const double beyond : {1e300, -0x1p63, std::numeric_limits<double>::infinity()})
      expect(refusal(DataType::int32, Reduction::premultiplied_sum(beyond))
                 .ends_with(" of int32: the factor is out of range: expected a whole number "
                            "between -2^63 and 2^63"),
             "a factor beyond integers");
    expect(
        refusal(DataType::boolean, half) == "all_reduce: premultiplied_sum is not defined on bool",
        "bool");
    communicator.all_reduce(std::span(data), Reduction::premultiplied_sum(std::int8_t{-2}));
    expect(data[0] == -20 && data[1] == -28, "the sum");
    communicator.all_reduce(std::span<const BufferPair>(), half);  // the empty list has no type
    std::uint64_t big = 1;
    const auto factor = (std::uint64_t{1} << 63) + 1;
    communicator.all_reduce(std::span(&big, 1), Reduction::premultiplied_sum(factor));
    expect(big == 2, "a factor beyond what a double holds");
    std::int32_t later = 0;
    const auto scaled = Reduction::premultiplied_sum_at(&later, DataType::int32);
    expect(scaled.text() == "premultiplied_sum by a factor in memory", scaled.text());
    later = 3 + communicator.rank();
    data = {1, 10};
    communicator.all_reduce(std::span(data), scaled);
    expect(data[0] == 7 && data[1] == 70, "a factor that came later");
    expect(refusal(DataType::float32, scaled) ==
               "all_reduce: the factor in memory is of type int32: expected float32, as the call's "
               "elements are",
           "a factor of another type");
    expect(testing::message_of([] {
             (void)Reduction::premultiplied_sum_at(nullptr, DataType::int32);
           }) == "invalid_argument: premultiplied_sum: the factor is a null pointer",
           "no place");
  });
  for (const auto& error : errors) CHECK(error == "");
}

namespace {

/// All ranks' results from subnormal numbers and from numbers that must be rounded, for every
/// algorithm and reduction that calculates. Each rank calls `adopt` first.
std::vector<std::vector<float>> subnormal_results(int size,
                                                  const std::function<void(int rank)>& adopt) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(size));
  const auto errors = run_ranks(size, {}, [&](Communicator& communicator) {
    adopt(communicator.rank());
    std::vector<std::uint32_t> bits(1000, 71362);  // 1e-40
    for (std::size_t i = 1; i < bits.size(); i += 2)
      bits[i] = 0x3f800000 + static_cast<std::uint32_t>(i);
    std::vector<float> in(bits.size()), out(bits.size());
    std::memcpy(in.data(), bits.data(), in.size() * sizeof(float));
    auto& mine = results[static_cast<std::size_t>(communicator.rank())];
    for (const auto algorithm : algorithms_for(Kind::all_reduce)) {
      const CallOptions options{.timeout = {}, .algorithm = to_string(algorithm)};
      for (const Reduction& reduction :
           {Reduction(ReduceOp::sum), Reduction(ReduceOp::avg), Reduction(ReduceOp::min),
            Reduction::premultiplied_sum(0.3), Reduction::premultiplied_sum(1e-40F)}) {
        communicator
            .all_reduce_async(ConstBlock(in.data(), in.size(), DataType::float32),
                              Block(out.data(), in.size(), DataType::float32), reduction, options)
            .wait();
        mine.insert(mine.end(), out.begin(), out.end());
      }
    }
  });
  for (const auto& error : errors) CHECK(error == "");
  return results;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("reductions: bits do not depend on the floating-point state of any rank's thread",
          "[comm]") {
  const auto states = testing::unusual_float_states();
  constexpr int kRanks = 4;
  const auto expected = subnormal_results(kRanks, [](int) {});
  for (std::size_t first = 0; first < states.size(); first++) {
    const auto got = subnormal_results(kRanks, [&](int rank) {
      if (rank > 0) testing::set_float_state(states[(first + std::size_t(rank)) % states.size()]);
    });
    for (std::size_t rank = 0; rank < kRanks; rank++) {
      CAPTURE(first, rank);
      CHECK(same_bits(got[rank], expected[0]));
    }
  }
}
