// SPDX-License-Identifier: Apache-2.0
// The caller's own function: its arguments, their order, and the exceptions that it throws.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "algorithms/algorithms.hpp"
#include "core/float_state.hpp"
#include "support/float_state.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using testing::expect;
using testing::run_ranks;

namespace {

/// x → a x + b modulo 2^32, as one element. Composition is associative but not commutative.
std::uint64_t affine(std::uint64_t a, std::uint64_t b) { return a << 32 | (b & 0xffffffff); }

void compose(const void* in, void* inout, std::size_t count, DataType) {
  const auto* left = static_cast<const std::uint64_t*>(in);
  auto* right = static_cast<std::uint64_t*>(inout);
  for (std::size_t i = 0; i < count; i++) {
    const auto a = left[i] >> 32, b = left[i] & 0xffffffff;
    const auto c = right[i] >> 32, d = right[i] & 0xffffffff;
    right[i] = affine(a * c, a * d + b);
  }
}

void add(const void* in, void* inout, std::size_t count, DataType) {
  const auto* from = static_cast<const std::int32_t*>(in);
  auto* to = static_cast<std::int32_t*>(inout);
  for (std::size_t i = 0; i < count; i++) to[i] += from[i];
}

constexpr std::size_t kCount = 5;

/// Composes and checks; the library chooses if the algorithm may not reorder.
void check_order(Communicator& communicator, const CatalogueEntry& entry, int root) {
  const auto composition = Reduction::custom(compose, {.name = "compose", .commutative = false});
  const int size = communicator.size(), rank = communicator.rank();
  Problem problem;
  problem.kind = entry.kind;
  problem.size = static_cast<Rank>(size);
  problem.root = static_cast<Rank>(root);
  const bool may = keeps_order(problem, entry.algorithm, CombineOrder::by_rank);
  const CallOptions options{.timeout = {}, .algorithm = may ? to_string(entry.algorithm) : ""};
  const bool scatters = entry.kind == Kind::reduce_scatter;
  const auto value = [](int of, std::size_t i) { return affine(i + 2, 7 + std::uint64_t(of)); };
  std::vector<std::uint64_t> in(scatters ? kCount * std::size_t(size) : kCount), out(kCount);
  for (std::size_t i = 0; i < in.size(); i++) in[i] = value(rank, i);

  if (entry.kind == Kind::all_reduce)
    communicator.all_reduce(ConstBlock(in.data(), kCount, DataType::uint64),
                            Block(out.data(), kCount, DataType::uint64), composition, options);
  else if (scatters)
    communicator.reduce_scatter(
        ConstBlock(in.data(), communicator.size() * kCount, DataType::uint64),
        Block(out.data(), kCount, DataType::uint64), composition, options);
  else
    communicator.reduce(ConstBlock(in.data(), kCount, DataType::uint64),
                        Block(out.data(), kCount, DataType::uint64), composition, root, options);

  if (entry.kind == Kind::reduce && rank != root) return;
  for (std::size_t i = 0; i < kCount; i++) {
    const auto at = scatters ? std::size_t(rank) * kCount + i : i;
    auto expected = value(size - 1, at);
    for (int r = size - 1; r-- > 0;) {
      const auto left = value(r, at);
      compose(&left, &expected, 1, DataType::uint64);
    }
    expect(out[i] == expected, fmt::format("{} by {}, root {}", to_string(entry.kind),
                                           to_string(entry.algorithm), root));
  }
}

}  // namespace

TEST_CASE("reductions: a function that does not commute is applied in rank order",
          "[comm][property]") {
  for (const int size : {1, 2, 3, 4, 5, 8, 11}) {
    CommunicatorOptions inproc;
    inproc.transport = "inproc";
    const auto errors = run_ranks(size, inproc, [&](Communicator& communicator) {
      for (const auto& entry : catalogue()) {
        if (!reduces(entry.kind) || entry.kind == Kind::barrier) continue;
        for (int root = 0; root < size; root++)
          if (root == 0 || entry.kind == Kind::reduce) check_order(communicator, entry, root);
      }
    });
    CAPTURE(size);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("reductions: an algorithm that leaves the rank order is refused where it matters",
          "[comm]") {
  const auto errors = run_ranks(3, {}, [](Communicator& communicator) {
    std::uint64_t data = 1;
    const auto composition = Reduction::custom(compose, {.name = "compose", .commutative = false});
    try {
      communicator.all_reduce(std::span(&data, 1), composition,
                              {.timeout = {}, .algorithm = "ring"});
      expect(false, "accepted");
    } catch (const Error& error) {
      expect(
          std::string(error.what())
              .starts_with(
                  "all_reduce: reduction 'compose' does not commute, and ring does not combine in "
                  "rank order; these do: "),
          error.what());
    }
    communicator.all_reduce(std::span(&data, 1));
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("reductions: a function gets aligned memory of every size by every algorithm", "[comm]") {
  const auto errors = run_ranks(3, {}, [](Communicator& communicator) {
    const auto check = [](const void* in, void* inout, std::size_t count, DataType type) {
      const auto odd = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 4 != 0; };
      if (odd(in) || odd(inout) || count == 0 || type != DataType::int32)
        throw std::runtime_error("wrong arguments");
      add(in, inout, count, type);
    };
    const auto sum = Reduction::custom(check, {.name = "add"});
    for (const auto algorithm : algorithms_for(Kind::all_reduce)) {
      for (const std::size_t count : {1u, 3u, 4099u, 100'003u}) {
        std::vector<std::byte> bytes(4 * count + 1);
        auto* data = bytes.data() + 1;
        for (std::size_t i = 0; i < count; i++) {
          const auto value = static_cast<std::int32_t>(i) + communicator.rank();
          std::memcpy(data + 4 * i, &value, 4);
        }
        communicator.all_reduce(Block(data, count, DataType::int32), sum,
                                {.timeout = {}, .algorithm = to_string(algorithm)});
        for (std::size_t i = 0; i < count; i++) {
          std::int32_t value = 0;
          std::memcpy(&value, data + 4 * i, 4);
          expect(value == 3 * static_cast<std::int32_t>(i) + 3, "a sum");
        }
      }
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("reductions: a function finds the default floating-point state, whatever its thread's",
          "[comm]") {
  const auto errors = run_ranks(3, {}, [](Communicator& communicator) {
    const auto check = [](const void* in, void* inout, std::size_t count, DataType type) {
      if (!DefaultFloatState::is_there()) throw std::runtime_error("another state");
      add(in, inout, count, type);
    };
    std::vector<std::int32_t> data(1000, 1);
    for (const auto state : testing::unusual_float_states()) {
      const testing::UnusualFloatState unusual(state);
      communicator.all_reduce(std::span(data), Reduction::custom(check, {.name = "add"}));
      expect(testing::float_state() == state, "the thread's own state afterwards");
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("reductions: what a function throws is the error of all ranks", "[comm]") {
  const auto errors = run_ranks(3, {}, [](Communicator& communicator) {
    const bool throws = communicator.rank() == 1;
    const auto fragile = Reduction::custom(
        [&](const void* in, void* inout, std::size_t count, DataType type) {
          if (throws) throw std::runtime_error("the matrix is singular");
          add(in, inout, count, type);
        },
        {.name = "fragile"});
    std::vector<std::int32_t> data(1000, 1);
    try {
      communicator.all_reduce(std::span(data), fragile, {.timeout = {}, .algorithm = "ring"});
      // A rank whose own part is already over learns of it at its next call.
      communicator.barrier();
      expect(false, "nothing was thrown");
    } catch (const Error& error) {
      const std::string text = error.what();
      expect(error.kind() == ErrorKind::aborted, text);
      expect(text.find("the reduction 'fragile' threw: the matrix is singular") != text.npos, text);
      expect(text.find("on rank 1") != text.npos, text);
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("reductions: a function that uses the communicator is told so", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    const std::function<void()> uses[] = {
        [&] { communicator.barrier(); },
        [&] { static_cast<void>(communicator.barrier_async()); },
        [&] { communicator.close(); },
    };
    for (const auto& use : uses) {
      const auto nested = Reduction::custom(
          [&](const void*, void*, std::size_t, DataType) { use(); }, {.name = "nested"});
      std::vector<std::int32_t> data(1000, 1);
      const auto text = testing::message_of([&] {
        communicator.all_reduce(std::span(data), nested);
        communicator.barrier();
      });
      for (const auto* const part :
           {"the reduction 'nested' threw: ", "the function of a reduction uses"})
        expect(text.find(part) != text.npos, text);
      communicator = communicator.shrink();
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("reductions: functions of different names are a mismatch", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto mine = Reduction::custom(add, {.name = rank == 0 ? "add" : "sum"});
    std::vector<std::int32_t> data(10, 1);
    try {
      communicator.all_reduce(std::span(data), mine, {.label = rank == 0 ? "first" : "second"});
      communicator.barrier();
      expect(false, "nothing was thrown");
    } catch (const Error& error) {
      const std::string text = error.what();
      expect(error.kind() == ErrorKind::mismatch, text);
      for (const auto* const side : {"rank 0 all_reduce of 10 int32, a custom reduction 'add' "
                                     "(call 0, \"first\")",
                                     "rank 1 all_reduce of 10 int32, a custom reduction 'sum' "
                                     "(call 0, \"second\")",
                                     "; the names of the reductions differ"})
        expect(text.find(side) != std::string::npos, text);
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("reductions: a custom one needs a function and a name", "[comm]") {
  CHECK_THROWS_AS(Reduction::custom(nullptr, {.name = "none"}), Error);
  CHECK_THROWS_AS(Reduction::custom(add, {}), Error);
}
