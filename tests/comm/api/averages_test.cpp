// SPDX-License-Identifier: Apache-2.0
// Averages of float16 and float8 keep the promises of ccoll/reduction.hpp with every algorithm.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "algorithms/algorithms.hpp"
#include "core/element.hpp"
#include "support/effort.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using testing::expect;
using testing::run_ranks;

namespace {

/// The largest finite number of T.
template <typename T>
T most() {
  return {static_cast<decltype(T::bits)>(element::LayoutOf<T>::kMost)};
}

/// Finite numbers of all magnitudes, including subnormal ones and the largest.
template <typename T>
T random_number(std::mt19937_64& random) {
  using L = element::LayoutOf<T>;
  const auto magnitude = static_cast<std::uint32_t>(random() % (L::kMost + 1));
  const auto sign = random() % 2 == 0 ? L::kSign : 0;
  return {static_cast<decltype(T::bits)>(random() % 4 == 0 ? L::kMost : magnitude | sign)};
}

/// This rank's part, from element `first`, of an average by the algorithm (by cost if that is
/// empty). Empty if the rank has no part.
template <typename T>
std::vector<T> average(Communicator& communicator, Kind kind, std::string_view algorithm,
                       const std::vector<T>& in, int root, std::size_t& first) {
  const CallOptions options{.timeout = {}, .algorithm = algorithm};
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const auto size = static_cast<std::size_t>(communicator.size());
  const auto type = data_type_of<T>;
  first = 0;
  auto out = in;
  if (kind == Kind::all_reduce) {
    communicator.all_reduce(Block(out.data(), out.size(), type), ReduceOp::avg, options);
  } else if (kind == Kind::reduce) {
    communicator.reduce(ConstBlock(in.data(), out.size(), type),
                        Block(out.data(), out.size(), type), ReduceOp::avg, root, options);
    if (communicator.rank() != root) out.clear();
  } else {
    out.resize(in.size() / size);
    first = rank * out.size();
    communicator.reduce_scatter(ConstBlock(in.data(), communicator.size() * out.size(), type),
                                Block(out.data(), out.size(), type), ReduceOp::avg, options);
  }
  return out;
}

/// Half a unit in the last place of the rounded result, plus the error of float32 arithmetic.
template <typename T>
double bound(double mean, double mean_magnitude, int size) {
  using L = element::LayoutOf<T>;
  const int exponent = mean == 0 ? -1000 : std::ilogb(mean);
  const int last =
      std::max(exponent, 1 - static_cast<int>(L::kBias)) - static_cast<int>(L::kMantissaBits);
  return std::ldexp(0.5, last) + size * std::ldexp(mean_magnitude, -24);
}

template <typename T>
void check_averages(Communicator& communicator, Kind kind, std::string_view algorithm,
                    std::size_t blocks, std::uint64_t seed) {
  const auto size = communicator.size();
  const auto count = blocks * static_cast<std::size_t>(size);
  std::mt19937_64 random(seed);  // the same on every rank
  const int root = static_cast<int>(random() % static_cast<unsigned>(size));
  std::vector<std::vector<T>> contributions(static_cast<std::size_t>(size), std::vector<T>(count));
  for (std::size_t i = 0; i < count; i++)
    for (auto& of_rank : contributions)
      of_rank[i] = i % 3 == 0 ? most<T>() : random_number<T>(random);
  std::size_t first = 0;
  const auto& mine = contributions[static_cast<std::size_t>(communicator.rank())];
  const auto averages = average(communicator, kind, algorithm, mine, root, first);
  for (std::size_t i = 0; i < averages.size(); i++) {
    double sum = 0, magnitudes = 0;
    for (const auto& of_rank : contributions) {
      const double value = element::widen(of_rank[first + i]);
      sum += value;
      magnitudes += std::abs(value);
    }
    const double mean = sum / size, got = element::widen(averages[i]);
    const bool is_right = std::abs(got - mean) <= bound<T>(mean, magnitudes / size, size);
    expect(is_right, fmt::format("{} of {} by '{}': {} instead of {}", to_string(kind),
                                 to_string(data_type_of<T>), algorithm, got, mean));
  }
}

template <typename T>
void check_algorithms(Communicator& communicator, std::uint64_t seed) {
  for (const auto kind : {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter}) {
    for (const auto algorithm : algorithms_for(kind))
      for (const std::size_t blocks : {1, testing::reduced() ? 100 : 1000})
        check_averages<T>(communicator, kind, to_string(algorithm), blocks, seed);
    for (const std::size_t blocks : {1, 100, testing::reduced() ? 1000 : 5000})
      check_averages<T>(communicator, kind, "", blocks, seed);
  }
}

}  // namespace

TEST_CASE("averages: as exact as one rounding, and none overflows, by every algorithm",
          "[comm][property]") {
  const std::uint64_t seed = std::random_device{}();
  for (const int size : testing::reduced() ? std::vector{1, 2, 5} : std::vector{1, 2, 3, 5, 8}) {
    const auto errors = run_ranks(size, {}, [&](Communicator& communicator) {
      check_algorithms<float16>(communicator, seed);
      check_algorithms<float8_e4m3>(communicator, seed);
      check_algorithms<float8_e5m2>(communicator, seed);
    });
    CAPTURE(seed, size);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("averages: infinities and NaNs reach the result, of several buffers too", "[comm]") {
  const auto errors = run_ranks(3, {}, [](Communicator& communicator) {
    const auto mine = static_cast<std::uint16_t>(communicator.rank());
    for (const auto algorithm : algorithms_for(Kind::all_reduce)) {
      std::vector<float16> some(7), others(5);
      for (auto& value : some) value.bits = mine == 1 ? 0xfc00 : 0x7bff;    // -infinity, 65504
      for (auto& value : others) value.bits = mine == 2 ? 0x7c01 : 0x3c00;  // a NaN, 1
      const BufferPair buffers[] = {some, others};
      communicator.all_reduce(buffers, ReduceOp::avg,
                              {.timeout = {}, .algorithm = to_string(algorithm)});
      for (const auto value : some) expect(value.bits == 0xfc00, "an infinity");
      for (const auto value : others) expect(value.bits == 0x7e00, "a NaN");
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}
