// SPDX-License-Identifier: Apache-2.0

/// Checks the kernels of every SIMD target that this machine supports against the scalar
/// definitions, bit by bit, with sentinels around every output.

#include "kernels/combine.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/element.hpp"
#include "forced_target.hpp"
#include "inputs.hpp"
#include "kernels/convert.hpp"
#include "support/effort.hpp"
#include "support/float_state.hpp"

namespace ccoll {
namespace {

using namespace testing;

constexpr std::size_t kMaxVectorBytes = 64;

struct Case {
  ReduceOp op;
  std::size_t elems;
  std::size_t source_count;
  std::size_t in_place;  ///< the source that is the output; source_count for none
  std::uint32_t divisor;
};

/// The error of one call of the kernel, or "".
template <typename T>
std::string check(const Case& c, std::mt19937_64& random) {
  std::vector<Guarded<T>> sources;
  std::vector<const std::byte*> pointers;
  for (std::size_t s = 0; s < c.source_count; ++s) {
    sources.emplace_back(c.elems, random() % kMaxVectorBytes);
    for (std::size_t i = 0; i < c.elems; ++i) sources[s].set(i, random_element<T>(random));
  }
  for (auto& source : sources) pointers.push_back(source.data());
  const std::vector<Guarded<T>> before = sources;
  Guarded<T> separate(c.elems, random() % kMaxVectorBytes);
  Guarded<T>& out = c.in_place < c.source_count ? sources[c.in_place] : separate;

  find_combine(data_type_of<T>, c.op)(pointers.data(), pointers.size(), out.data(), c.elems,
                                      c.divisor);

  std::vector<T> contributions(c.source_count);
  for (std::size_t i = 0; i < c.elems; ++i) {
    for (std::size_t s = 0; s < c.source_count; ++s) contributions[s] = before[s].get(i);
    const T expected =
        element::combine(c.op, contributions.data(), contributions.size(), c.divisor);
    const T actual = out.get(i);
    if (std::memcmp(&expected, &actual, sizeof(T)) != 0) return "element " + std::to_string(i);
  }
  if (!out.guards_are_whole()) return "a sentinel beside the output";
  for (std::size_t s = 0; s < c.source_count; ++s) {
    if (s != c.in_place && !(sources[s] == before[s])) return "source " + std::to_string(s);
  }
  return "";
}

template <typename T>
void check_all(std::int64_t target, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  // Past a block of four vectors, one more vector and one more element.
  const std::size_t most = 5 * (kMaxVectorBytes / sizeof(T)) + 3;
  for (const ReduceOp op : ops_of<T>()) {
    const std::size_t stride = reduced() ? 8 : 1;
    for (std::size_t elems = random() % stride; elems <= most; elems += stride) {
      // One and two sources at every size; more sources and in-place positions vary with the size.
      for (const std::size_t count : {std::size_t{1}, std::size_t{2}, 3 + random() % 7}) {
        const std::size_t in_place = (elems + random()) % (count + 1);
        const std::uint32_t divisor = op != ReduceOp::avg || random() % 3 == 0
                                          ? 1
                                          : 1 + static_cast<std::uint32_t>(random() % 300);
        const Case c{op, elems, count, in_place, divisor};
        const std::string wrong = check<T>(c, random);
        if (wrong.empty()) continue;
        FAIL_CHECK("target " << hwy::TargetName(target) << " " << to_string(data_type_of<T>) << " "
                             << to_string(op) << " elems " << elems << " sources " << count
                             << " in place " << in_place << " divisor " << divisor << " seed "
                             << seed << ": " << wrong << " differs");
        return;
      }
    }
  }
}

std::vector<std::int64_t> targets() { return hwy::SupportedAndGeneratedTargets(); }

}  // namespace

TEMPLATE_TEST_CASE("every SIMD target equals the scalar definition bit by bit", "[kernels]",
                   CCOLL_ALL_TYPES) {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    check_all<TestType>(target, seed);
  }
  SUCCEED("seed " << seed);
}

TEMPLATE_TEST_CASE("every in-place position is right where blocks and tails meet", "[kernels]",
                   CCOLL_ALL_TYPES) {
  std::mt19937_64 random(17);
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    for (const ReduceOp op : ops_of<TestType>()) {
      for (std::size_t count = 1; count <= (reduced() ? 4 : 9); ++count) {
        for (std::size_t in_place = 0; in_place <= count; ++in_place) {
          const Case c{op, 9 * kMaxVectorBytes / sizeof(TestType) + 1, count, in_place,
                       op == ReduceOp::avg ? 7u : 1u};
          CAPTURE(hwy::TargetName(target), to_string(op), count, in_place);
          CHECK(check<TestType>(c, random).empty());
        }
      }
    }
  }
}

/// Every pair of 16-bit patterns would take minutes; every pattern against each special one covers
/// rounding and order. 8-bit patterns are tested in all pairs. With little effort each seventh of
/// the 16-bit patterns is: the odd step meets all exponents, and low bits of all kinds.
TEMPLATE_TEST_CASE("every small float is combined as the scalar definition does", "[kernels]",
                   float16, bfloat16, float8_e4m3, float8_e5m2) {
  using Stored = decltype(TestType::bits);
  constexpr std::size_t kPatterns = std::size_t{1} << (8 * sizeof(Stored));
  const std::size_t step = kPatterns > 256 && testing::reduced() ? 7 : 1;
  const std::size_t count = kPatterns / step;
  std::vector<TestType> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i].bits = static_cast<Stored>(i * step);
  auto others = special_bits<TestType>();
  if (kPatterns == 256) {
    others.resize(kPatterns);
    std::iota(others.begin(), others.end(), 0u);
  }
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    for (const std::uint64_t special : others) {
      const std::vector<TestType> other(count, TestType{static_cast<Stored>(special)});
      for (const ReduceOp op : ops_of<TestType>()) {
        std::vector<TestType> out(count);
        const std::array pointers = {reinterpret_cast<const std::byte*>(all.data()),
                                     reinterpret_cast<const std::byte*>(other.data())};
        find_combine(data_type_of<TestType>, op)(
            pointers.data(), 2, reinterpret_cast<std::byte*>(out.data()), count, 3);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const std::array pair = {all[i], other[i]};
          if (out[i] != element::combine(op, pair.data(), 2, 3)) ++wrong;
        }
        CAPTURE(hwy::TargetName(target), to_string(op), special);
        CHECK(wrong == 0);
      }
    }
  }
}

TEMPLATE_TEST_CASE("integers of every size are divided as integers are", "[kernels]", std::int8_t,
                   std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                   std::int64_t, std::uint64_t) {
  using Wide = std::conditional_t<std::is_signed_v<TestType>, std::int64_t, std::uint64_t>;
  std::mt19937_64 random(5);
  constexpr std::size_t kElems = 4096;
  std::vector<TestType> values(kElems);
  for (auto& value : values) value = static_cast<TestType>(random() >> (random() % 64));
  values[0] = std::numeric_limits<TestType>::min();
  values[1] = std::numeric_limits<TestType>::max();
  values[2] = static_cast<TestType>(-1);
  const std::byte* source = reinterpret_cast<const std::byte*>(values.data());
  for (const std::uint32_t divisor : {2u, 3u, 7u, 24576u, 2147483647u, 2147483648u, 4294967295u}) {
    std::vector<TestType> out(kElems);
    find_combine(data_type_of<TestType>, ReduceOp::avg)(
        &source, 1, reinterpret_cast<std::byte*>(out.data()), kElems, divisor);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kElems; ++i)
      wrong += out[i] != static_cast<TestType>(Wide{values[i]} / Wide{divisor});
    CAPTURE(divisor);
    CHECK(wrong == 0);
  }
}

TEMPLATE_TEST_CASE("scaling equals the scalar definition bit by bit, in place too", "[kernels]",
                   CCOLL_ALL_TYPES) {
  if (data_type_of<TestType> == DataType::boolean) {
    CHECK(find_scale(DataType::boolean) == nullptr);
    return;
  }
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr std::size_t most = 2 * kMaxVectorBytes / sizeof(TestType) + 3;
  const std::size_t stride = reduced() ? 8 : 1;
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    for (const double real : {1.0, -0.5, 0.1, 3e-6, 1e30, kNaN}) {
      const element::Factor factor{real, random()};
      for (std::size_t elems = random() % stride; elems <= most; elems += stride) {
        for (const bool in_place : {false, true}) {
          Guarded<TestType> in(elems, random() % kMaxVectorBytes);
          for (std::size_t i = 0; i < elems; ++i) in.set(i, random_element<TestType>(random));
          const Guarded<TestType> before = in;
          Guarded<TestType> separate(elems, random() % kMaxVectorBytes);
          Guarded<TestType>& out = in_place ? in : separate;
          find_scale(data_type_of<TestType>)(in.data(), out.data(), elems, factor);
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < elems; ++i) {
            const TestType expected = element::scale(before.get(i), factor);
            const TestType actual = out.get(i);
            wrong += std::memcmp(&expected, &actual, sizeof expected) != 0;
          }
          CAPTURE(hwy::TargetName(target), real, elems, in_place);
          REQUIRE(wrong == 0);
          REQUIRE(out.guards_are_whole());
          if (!in_place) REQUIRE(in == before);
        }
      }
    }
  }
}

/// Random elements; for floats every other one is subnormal or nearly so.
template <typename T>
std::vector<T> telling_elements(std::size_t elems, std::mt19937_64& random) {
  std::vector<T> values(elems);
  for (std::size_t i = 0; i < elems; ++i) {
    values[i] = random_element<T>(random);
    if constexpr (std::is_same_v<T, float>)
      if (i % 2 == 0) values[i] = element::bits_as<float>(std::uint32_t(random() % 0x1000001));
    if constexpr (std::is_same_v<T, double>)
      if (i % 2 == 0) values[i] = element::bits_as<double>(random() % 0x20000000000001);
    if constexpr (std::is_same_v<T, bfloat16>)
      if (i % 2 == 0) values[i].bits = static_cast<std::uint16_t>(random() % 0x101);
  }
  return values;
}

template <typename T>
std::vector<T> combined_here(ReduceOp op, const std::vector<std::vector<T>>& sources) {
  std::vector<const std::byte*> pointers;
  for (const auto& source : sources)
    pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
  std::vector<T> out(sources[0].size());
  find_combine(data_type_of<T>, op)(pointers.data(), pointers.size(),
                                    reinterpret_cast<std::byte*>(out.data()), out.size(),
                                    op == ReduceOp::avg ? 7 : 1);
  return out;
}

template <typename T>
std::vector<T> scaled_here(const std::vector<T>& values, const element::Factor& factor) {
  std::vector<T> out(values.size());
  find_scale(data_type_of<T>)(reinterpret_cast<const std::byte*>(values.data()),
                              reinterpret_cast<std::byte*>(out.data()), out.size(), factor);
  return out;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

TEMPLATE_TEST_CASE("results do not depend on the thread's floating-point state, which is kept",
                   "[kernels][property]", CCOLL_ALL_TYPES) {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    for (const std::size_t elems : {std::size_t{1}, 5 * kMaxVectorBytes / sizeof(TestType) + 3}) {
      std::vector<std::vector<TestType>> sources;
      for (int s = 0; s < 3; ++s) sources.push_back(telling_elements<TestType>(elems, random));
      for (const auto state : unusual_float_states()) {
        CAPTURE(hwy::TargetName(target), elems, state);
        for (const ReduceOp op : ops_of<TestType>()) {
          const auto expected = combined_here(op, sources);
          std::uint64_t after = 0;
          std::vector<TestType> actual;
          {
            const UnusualFloatState unusual(state);
            actual = combined_here(op, sources);
            after = float_state();
          }
          CAPTURE(to_string(op));
          CHECK(same_bits(actual, expected));
          CHECK(after == state);
        }
        if (data_type_of<TestType> == DataType::boolean) continue;
        const element::Factor factor{1 / 3.0, 3};
        const auto expected = scaled_here(sources[0], factor);
        std::vector<TestType> actual;
        {
          const UnusualFloatState unusual(state);
          actual = scaled_here(sources[0], factor);
        }
        CHECK(same_bits(actual, expected));
      }
    }
  }
}

TEMPLATE_TEST_CASE("every NaN that is made has the bits that ccoll/reduction.hpp says",
                   "[kernels][unit]", float16, bfloat16, float, double, float8_e4m3, float8_e5m2) {
  const std::map<DataType, std::uint64_t> promised = {
      {DataType::float16, 0x7e00},     {DataType::bfloat16, 0x7fc0},
      {DataType::float32, 0x7fc00000}, {DataType::float64, 0x7ff8000000000000},
      {DataType::float8_e4m3, 0x7f},   {DataType::float8_e5m2, 0x7f},
  };
  const auto bits_of = [](TestType value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  };
  constexpr std::size_t kElems = 5 * kMaxVectorBytes / sizeof(TestType) + 3;
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    for (const std::size_t elems : {std::size_t{1}, kElems}) {
      // Quiet and signalling NaNs of either sign.
      for (const std::uint64_t special : special_bits<TestType>()) {
        TestType nan{}, one{};
        std::memcpy(static_cast<void*>(&nan), &special, sizeof nan);
        const auto wide = element::widen(nan);
        if (wide == wide) continue;
        one = element::narrow<TestType>(1);
        for (const bool first : {true, false}) {
          const std::vector<TestType> nans(elems, nan), ones(elems, one);
          for (const ReduceOp op : ops_of<TestType>()) {
            CAPTURE(hwy::TargetName(target), elems, special, to_string(op), first);
            for (const TestType made :
                 combined_here<TestType>(op, {first ? nans : ones, first ? ones : nans}))
              REQUIRE(bits_of(made) == promised.at(data_type_of<TestType>));
          }
          for (const TestType made : scaled_here(nans, {0.5, 1}))
            REQUIRE(bits_of(made) == promised.at(data_type_of<TestType>));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("conversions to float32 and back equal the scalar definition bit by bit",
                   "[kernels]", float16, float8_e4m3, float8_e5m2) {
  std::mt19937_64 random(3);
  constexpr std::size_t most = 2 * kMaxVectorBytes / sizeof(TestType) + 3;
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    const Conversion conversion = find_conversion(data_type_of<TestType>);
    for (std::size_t elems = 0; elems <= most; ++elems) {
      Guarded<TestType> small(elems, random() % kMaxVectorBytes);
      Guarded<float> wide(elems, 0);
      std::vector<float> any(elems);
      for (std::size_t i = 0; i < elems; ++i) {
        small.set(i, random_element<TestType>(random));
        any[i] = random_element<float>(random);
      }
      conversion.widen(small.data(), reinterpret_cast<float*>(wide.data()), elems);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < elems; ++i)
        wrong += element::bits_as<std::uint32_t>(wide.get(i)) !=
                 element::bits_as<std::uint32_t>(element::widen(small.get(i)));
      conversion.narrow(any.data(), small.data(), elems);
      for (std::size_t i = 0; i < elems; ++i)
        wrong += small.get(i) != element::narrow<TestType>(any[i]);
      CAPTURE(hwy::TargetName(target), elems);
      REQUIRE(wrong == 0);
      REQUIRE(small.guards_are_whole());
      REQUIRE(wide.guards_are_whole());
    }
  }
  CHECK(find_conversion(DataType::bfloat16).widen == nullptr);
  CHECK(find_conversion(DataType::float64).narrow == nullptr);
}

TEST_CASE("there is a kernel for exactly the operations that are defined", "[kernels]") {
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    for (const DataType type : kDataTypes) {
      for (const ReduceOp op : kReduceOps) {
        CAPTURE(hwy::TargetName(target), to_string(type), to_string(op));
        CHECK((find_combine(type, op) != nullptr) == is_defined(op, type));
      }
    }
  }
}

TEST_CASE("each SIMD target has kernels of its own", "[kernels]") {
  std::vector<CombineFunction> seen;
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    const CombineFunction found = find_combine(DataType::float32, ReduceOp::sum);
    CAPTURE(hwy::TargetName(target));
    CHECK(std::find(seen.begin(), seen.end(), found) == seen.end());
    seen.push_back(found);
  }
}

TEST_CASE("the names of the SIMD targets start with the one that is used", "[kernels]") {
  const std::string names = simd_target();
  CHECK(names.rfind(hwy::TargetName(targets().front()), 0) == 0);
}

}  // namespace ccoll
