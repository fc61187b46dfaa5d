// SPDX-License-Identifier: Apache-2.0
// cc-bench's work on a GPU, with a host that plays one.
#include <cuda_runtime_api.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <set>

#include "bench/measure/gpu.hpp"
#include "bench/measure/pattern_kernels.hpp"
#include "core/element.hpp"
#include "kernels/device/layer.hpp"
#include "trial_cases.hpp"

using namespace ccoll;
using namespace ccoll::bench;

namespace {

using Bytes = std::vector<std::byte>;

/// One thread of a launch; the threads do not wait for each other.
struct OneThread {
  std::uint32_t number = 0;
  std::uint32_t count = 1;
  std::uint32_t thread() const { return number; }
  std::uint32_t threads() const { return count; }
  void barrier() const {}
};

/// A copy, and each operation of the type.
std::vector<Recipe> all_recipes(int size) {
  std::vector<Recipe> all;
  for (const DataType type : kDataTypes) {
    all.push_back({type, std::nullopt, size});
    for (const ReduceOp op : kReduceOps)
      if (is_defined(op, type)) all.push_back({type, op, size});
  }
  return all;
}

Bytes taken_from(const std::byte* there, std::size_t bytes) {
  Bytes here(bytes);
  REQUIRE(cudaMemcpy(here.data(), there, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
  return here;
}

void put(std::byte* there, std::span<const std::byte> bytes) {
  REQUIRE(cudaMemcpy(there, bytes.data(), bytes.size(), cudaMemcpyHostToDevice) == cudaSuccess);
}

void flip(std::byte* there, std::byte bits = std::byte{0xff}) {
  put(there, Bytes{taken_from(there, 1)[0] ^ bits});
}

}  // namespace

TEST_CASE("a GPU writes a pattern, and finds what differs from it, as the host does",
          "[bench][property]") {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto gpu = open_gpu(0);
  for (const Recipe& recipe : all_recipes(3)) {
    const std::size_t width = size_of(recipe.type);
    const std::uint64_t before = random() % 20, elems = 1 + random() % (3 * kPeriod);
    const std::uint64_t first = random() % (5 * kPeriod), all = before + elems + 20;
    CAPTURE(seed, to_string(recipe.type), recipe.op.has_value(), before, elems, first);
    const auto period = recipe.op ? make_reduced_period(recipe) : make_input_period(recipe, 1);
    const auto memory = gpu->allocate(all * width);
    Bytes expected(all * width, std::byte{0xee});
    put(memory.get(), expected);
    std::byte* const data = memory.get() + before * width;
    gpu->fill(data, elems, width, period, first);
    fill(expected.data() + before * width, elems, width, period, first);
    REQUIRE(taken_from(memory.get(), expected.size()) == expected);
    CHECK(gpu->count_wrong(data, elems, width, period, first) == 0);
    std::set<std::uint64_t> wrong;
    for (int i = 0; i < 5; i++) {
      const std::uint64_t elem = i == 0 ? 0 : i == 1 ? elems - 1 : random() % elems;
      if (!wrong.insert(elem).second) continue;
      flip(data + elem * width + random() % width, std::byte{1} << random() % 8);
      CHECK(gpu->count_wrong(data, elems, width, period, first) == wrong.size());
    }
  }
  gpu->free_unused();
}

TEST_CASE("of a launch's threads each has its own elements", "[bench][property]") {
  for (const std::uint32_t threads : {1u, 3u, 8u, 2000u}) {
    for (const DataType type :
         {DataType::uint8, DataType::float16, DataType::int32, DataType::float64}) {
      CAPTURE(threads, to_string(type));
      const std::size_t width = size_of(type);
      const auto period = make_input_period({type, std::nullopt, 1}, 0);
      const std::uint64_t elems = 1500;
      Bytes data(elems * width), expected(elems * width);
      fill(expected.data(), elems, width, period, 7);
      std::uint64_t wrong = 0;
      const PatternRun run{data.data(), elems, static_cast<std::uint32_t>(width), 7, period.data(),
                           kPeriod,     &wrong};
      for (std::uint32_t i = 0; i < threads; i++) fill_part(OneThread{i, threads}, run);
      CHECK(data == expected);
      for (const std::uint64_t elem : {std::uint64_t{0}, elems / 2, elems - 1})
        data[elem * width] ^= std::byte{4};
      for (std::uint32_t i = 0; i < threads; i++) count_wrong_part(OneThread{i, threads}, run);
      CHECK(wrong == 3);
    }
  }
}

TEST_CASE("the check on a GPU finds unwritten, wrong and overrun elements, and nothing else",
          "[bench][property]") {
  const auto gpu = open_gpu(0);
  check_trials(
      {.gpu = gpu.get(),
       .fill =
           [&](std::byte* data, const Segment& segment, std::span<const std::byte> period) {
             gpu->fill(data, segment.elems, 4, period, segment.first);
           },
       .flip = [](std::byte* byte) { flip(byte); }});
}

TEST_CASE("calls are timed by the clock of their stream, twenty in a row", "[bench]") {
  const auto gpu = open_gpu(0);
  std::atomic<std::uint64_t> over = 0;
  std::uint64_t calls = 0, most_in_stream = 0;
  const auto call = [&] {
    calls++;
    const auto count = [](void* it) { ++*static_cast<std::atomic<std::uint64_t>*>(it); };
    REQUIRE(cudaLaunchHostFunc(gpu->stream(), count, &over) == cudaSuccess);
    most_in_stream = std::max(most_in_stream, calls - over);
  };
  // The clock advances by 1 ms from one event to the next.
  const auto singly = gpu->time(45, true, call);
  CHECK(singly.size() == 46);
  for (const double us : singly) CHECK(us == Approx(1000));
  CHECK(calls == 45);
  CHECK(over == 45);
  CHECK(most_in_stream <= kCallsInStream);
  const auto mean = gpu->time(45, false, call);
  REQUIRE(mean.size() == 1);
  CHECK(mean[0] == Approx(3 * 1000.0 / 45));
}
