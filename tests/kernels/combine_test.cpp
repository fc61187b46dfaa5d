// SPDX-License-Identifier: Apache-2.0

/// Holds the kernels of every SIMD target that this machine runs to the scalar definitions, bit by
/// bit, with sentinels round every output.

#include "kernels/combine.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/element.hpp"
#include "kernels/targets.hpp"

namespace ccoll {
namespace {

constexpr std::array kOps = {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max,
                             ReduceOp::avg};
constexpr std::size_t kGuard = 64;
constexpr std::size_t kMaxVectorBytes = 64;
constexpr unsigned char kSentinel = 0xa5;

/// Makes the dispatch choose `target` while it lives.
class ForcedTarget {
 public:
  explicit ForcedTarget(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
  }
  ~ForcedTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
};

template <typename T>
std::vector<std::uint64_t> special_bits() {
  if constexpr (std::is_same_v<T, float16>) {
    return {0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0x7bff, 0x7c00, 0xfc00, 0x7c01, 0xffff};
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return {0, 0x8000, 1, 0x8001, 0x7f, 0x80, 0x3f80, 0x7f7f, 0x7f80, 0xff80, 0x7f81, 0xffff};
  } else if constexpr (std::is_same_v<T, float>) {
    return {0,          0x80000000, 1,          0x80000001, 0x3f800000,
            0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffc01234};
  } else if constexpr (std::is_same_v<T, double>) {
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    constexpr std::uint64_t kInfinity = 0x7ff0000000000000;
    return {0,
            kSign,
            1,
            kSign + 1,
            0x3ff0000000000000,
            kInfinity - 1,
            kInfinity,
            kSign + kInfinity,
            kInfinity + 1,
            ~std::uint64_t{0}};
  } else {
    const auto top = std::uint64_t{1} << (8 * sizeof(T) - 1);
    return {0, 1, ~std::uint64_t{0}, top, top - 1, top + 1};
  }
}

/// Any bits at all, special ones as often as not, and for 16-bit floats near one another, so that
/// sums of ordinary size round.
template <typename T>
T random_element(std::mt19937_64& random) {
  static const std::vector<std::uint64_t> special = special_bits<T>();
  std::uint64_t bits = random();
  const std::uint64_t kind = random() % 8;
  if (kind == 0) bits = special[bits % special.size()];
  if (kind >= 4) {
    if constexpr (std::is_same_v<T, float16>) bits = 0x3000 | (bits & 0x8fff);
    if constexpr (std::is_same_v<T, bfloat16>) bits = 0x3f00 | (bits & 0x81ff);
    if constexpr (std::is_same_v<T, float>) bits = 0x3f000000 | (bits & 0x81ffffff);
    if constexpr (std::is_same_v<T, double>) {
      bits = 0x3fe0000000000000 | (bits & 0x803fffffffffffff);
    }
  }
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

/// One buffer of `elems` elements that starts `misalignment` bytes past a guard, with guards
/// before and behind.
template <typename T>
class Guarded {
 public:
  Guarded(std::size_t elems, std::size_t misalignment)
      : offset_(kGuard + misalignment),
        size_(elems * sizeof(T)),
        bytes_(offset_ + size_ + kGuard, std::byte{kSentinel}) {}

  std::byte* data() { return bytes_.data() + offset_; }
  void set(std::size_t i, T value) { std::memcpy(data() + i * sizeof(T), &value, sizeof(T)); }
  T get(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset_ + i * sizeof(T), sizeof(T));
    return value;
  }
  bool guards_are_whole() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const bool inside = i >= offset_ && i < offset_ + size_;
      if (!inside && bytes_[i] != std::byte{kSentinel}) return false;
    }
    return true;
  }
  bool operator==(const Guarded&) const = default;

 private:
  std::size_t offset_;
  std::size_t size_;
  std::vector<std::byte> bytes_;
};

struct Case {
  ReduceOp op;
  std::size_t elems;
  std::size_t source_count;
  std::size_t in_place;  ///< the source that is the output, or source_count for none
  std::uint32_t divisor;
};

/// What is wrong with one call of the kernel, "" if nothing.
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
  for (const ReduceOp op : kOps) {
    for (std::size_t elems = 0; elems <= most; ++elems) {
      for (std::size_t count = 1; count <= 9; ++count) {
        // Every in-place position at every source count, over the sizes; both always for two.
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
                   std::uint8_t, std::int32_t, std::int64_t, float16, bfloat16, float, double) {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    check_all<TestType>(target, seed);
  }
  SUCCEED("seed " << seed);
}

TEMPLATE_TEST_CASE("every in-place position is right where blocks and tails meet", "[kernels]",
                   std::uint8_t, std::int32_t, std::int64_t, float16, bfloat16, float, double) {
  std::mt19937_64 random(17);
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    for (const ReduceOp op : kOps) {
      for (std::size_t count = 1; count <= 9; ++count) {
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

/// Every pair of 16-bit patterns would take minutes; every pattern against each special one and
/// against its neighbours finds what rounding and order can do.
TEMPLATE_TEST_CASE("every 16-bit float is combined as the scalar definition does", "[kernels]",
                   float16, bfloat16) {
  constexpr std::size_t kAll = 65536;
  std::vector<TestType> all(kAll);
  for (std::size_t i = 0; i < kAll; ++i) all[i].bits = static_cast<std::uint16_t>(i);
  for (const std::int64_t target : targets()) {
    const ForcedTarget forced(target);
    for (const std::uint64_t special : special_bits<TestType>()) {
      const std::vector<TestType> other(kAll, TestType{static_cast<std::uint16_t>(special)});
      for (const ReduceOp op : kOps) {
        std::vector<TestType> out(kAll);
        const std::array pointers = {reinterpret_cast<const std::byte*>(all.data()),
                                     reinterpret_cast<const std::byte*>(other.data())};
        find_combine(data_type_of<TestType>, op)(pointers.data(), 2,
                                                 reinterpret_cast<std::byte*>(out.data()), kAll, 3);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < kAll; ++i) {
          const std::array pair = {all[i], other[i]};
          if (out[i] != element::combine(op, pair.data(), 2, 3)) ++wrong;
        }
        CAPTURE(hwy::TargetName(target), to_string(op), special);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("integers of every size are divided as integers are", "[kernels]") {
  std::mt19937_64 random(5);
  constexpr std::size_t kElems = 4096;
  std::vector<std::int32_t> values(kElems);
  for (auto& value : values) value = static_cast<std::int32_t>(random() >> (random() % 32));
  values[0] = std::numeric_limits<std::int32_t>::min();
  values[1] = std::numeric_limits<std::int32_t>::max();
  values[2] = -1;
  const std::byte* source = reinterpret_cast<const std::byte*>(values.data());
  for (const std::uint32_t divisor : {2u, 3u, 7u, 24576u, 2147483647u, 2147483648u, 4294967295u}) {
    std::vector<std::int32_t> out(kElems);
    find_combine(DataType::int32, ReduceOp::avg)(
        &source, 1, reinterpret_cast<std::byte*>(out.data()), kElems, divisor);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kElems; ++i) wrong += out[i] != std::int64_t{values[i]} / divisor;
    CAPTURE(divisor);
    CHECK(wrong == 0);
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
