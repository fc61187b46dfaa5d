// SPDX-License-Identifier: Apache-2.0
// Every collective with every algorithm over every transport; ranks are threads.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <latch>
#include <random>

#include "algorithms/algorithms.hpp"
#include "dumps/read.hpp"
#include "support/effort.hpp"
#include "support/ranks.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using testing::expect;
using testing::full;
using testing::message_of;
using testing::reduced;
using testing::run_ranks;
using namespace std::chrono_literals;

namespace {

std::int64_t element(int rank, std::size_t index) {
  return static_cast<std::int64_t>(rank + 1) * 1000 + static_cast<std::int64_t>(index % 977);
}

/// One collective, run and checked on one rank; in place if that is requested and possible.
class Trial {
 public:
  Trial(Communicator& communicator, std::size_t count, bool in_place, CallOptions options)
      : communicator_(communicator), count_(count), in_place_(in_place), options_(options) {}

  void run(Kind kind, int root) {
    switch (kind) {
      case Kind::all_reduce:
        return all_reduce();
      case Kind::reduce:
        return reduce(root);
      case Kind::broadcast:
        return broadcast(root);
      case Kind::all_gather:
        return all_gather();
      case Kind::reduce_scatter:
        return reduce_scatter();
      case Kind::all_to_all:
        return all_to_all();
      case Kind::gather:
        return gather(root);
      case Kind::scatter:
        return scatter(root);
      case Kind::barrier:
        return communicator_.barrier(options_);
    }
  }

 private:
  using Buffer = std::vector<std::int64_t>;
  static constexpr DataType kType = DataType::int64;

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  /// Elements that differ on every rank.
  static Buffer of(int rank, std::size_t elems) {
    Buffer buffer(elems);
    for (std::size_t i = 0; i < elems; i++) buffer[i] = element(rank, i);
    return buffer;
  }
  std::int64_t sum(std::size_t index) const {
    std::int64_t total = 0;
    for (int r = 0; r < size(); r++) total += element(r, index);
    return total;
  }
  void check(std::int64_t got, std::int64_t wanted, std::size_t index) const {
    if (got != wanted)
      throw std::runtime_error(fmt::format("element {} is {}, not {}", index, got, wanted));
  }

  void all_reduce() {
    const auto original = of(rank(), count_);
    auto input = original;
    Buffer output(count_, -1);
    auto* out = in_place_ ? input.data() : output.data();
    communicator_.all_reduce(ConstBlock(input.data(), count_, kType), Block(out, count_, kType),
                             ReduceOp::sum, options_);
    for (std::size_t i = 0; i < count_; i++) check(out[i], sum(i), i);
    if (!in_place_) expect(input == original, "the input was written");
  }
  void reduce(int root) {
    const auto original = of(rank(), count_);
    auto input = original;
    Buffer output(count_, -1);
    const bool same = in_place_ && rank() == root;
    auto* out = same ? input.data() : output.data();
    communicator_.reduce(ConstBlock(input.data(), count_, kType), Block(out, count_, kType),
                         ReduceOp::sum, root, options_);
    if (rank() == root)
      for (std::size_t i = 0; i < count_; i++) check(out[i], sum(i), i);
    if (rank() != root) expect(output == Buffer(count_, -1), "another rank's output was written");
    if (!same) expect(input == original, "the input was written");
  }
  void broadcast(int root) {
    auto input = of(root, count_);
    Buffer output(count_, -1);
    auto* out = in_place_ && rank() == root ? input.data() : output.data();
    communicator_.broadcast(ConstBlock(rank() == root ? input.data() : nullptr, count_, kType),
                            Block(out, count_, kType), root, options_);
    for (std::size_t i = 0; i < count_; i++) check(out[i], element(root, i), i);
  }
  void all_gather() {
    const auto mine = of(rank(), count_);
    Buffer output(count_ * ranks(), -1);
    auto* place = output.data() + count_ * static_cast<std::size_t>(rank());
    if (in_place_) std::copy(mine.begin(), mine.end(), place);
    communicator_.all_gather(ConstBlock(in_place_ ? place : mine.data(), count_, kType),
                             Block(output.data(), communicator_.size() * count_, kType), options_);
    for (std::size_t i = 0; i < output.size(); i++)
      check(output[i], element(static_cast<int>(i / count_), i % count_), i);
  }
  void reduce_scatter() {
    auto input = of(rank(), count_ * ranks());
    Buffer output(count_, -1);
    const auto first = count_ * static_cast<std::size_t>(rank());
    auto* out = in_place_ ? input.data() + first : output.data();
    communicator_.reduce_scatter(ConstBlock(input.data(), communicator_.size() * count_, kType),
                                 Block(out, count_, kType), ReduceOp::sum, options_);
    for (std::size_t i = 0; i < count_; i++) check(out[i], sum(first + i), i);
  }
  void all_to_all() {
    const auto input = of(rank(), count_ * ranks());
    Buffer output = in_place_ ? input : Buffer(count_ * ranks(), -1);
    communicator_.all_to_all(
        ConstBlock(in_place_ ? output.data() : input.data(), communicator_.size() * count_, kType),
        Block(output.data(), communicator_.size() * count_, kType), options_);
    for (std::size_t i = 0; i < output.size(); i++) {
      const auto mine = count_ * static_cast<std::size_t>(rank()) + i % count_;
      check(output[i], element(static_cast<int>(i / count_), mine), i);
    }
  }
  void gather(int root) {
    const auto mine = of(rank(), count_);
    Buffer output(rank() == root ? count_ * ranks() : 0, -1);
    const bool same = in_place_ && rank() == root;
    auto* place = output.data() + (same ? count_ * static_cast<std::size_t>(rank()) : 0);
    if (same) std::copy(mine.begin(), mine.end(), place);
    communicator_.gather(ConstBlock(same ? place : mine.data(), count_, kType),
                         Block(output.data(), communicator_.size() * count_, kType), root,
                         options_);
    for (std::size_t i = 0; i < output.size(); i++)
      check(output[i], element(static_cast<int>(i / count_), i % count_), i);
  }
  void scatter(int root) {
    auto input = of(rank(), rank() == root ? count_ * ranks() : 0);
    Buffer output(count_, -1);
    const bool same = in_place_ && rank() == root;
    const auto first = count_ * static_cast<std::size_t>(rank());
    auto* out = same ? input.data() + first : output.data();
    communicator_.scatter(ConstBlock(input.data(), communicator_.size() * count_, kType),
                          Block(out, count_, kType), root, options_);
    for (std::size_t i = 0; i < count_; i++) check(out[i], element(root, first + i), i);
  }

  Communicator& communicator_;
  const std::size_t count_;
  const bool in_place_;
  const CallOptions options_;
};

std::vector<int> sizes() {
  if (reduced()) return {1, 2, 5};
  return full() ? std::vector{1, 2, 3, 4, 5, 6, 7, 8, 13, 16} : std::vector{1, 2, 3, 4, 5, 8};
}

void run_all(const std::string& transport, int size, std::uint64_t seed) {
  const std::vector<std::size_t> counts = {
      0,    1,
      3,    static_cast<std::size_t>(size),
      1000, testing::by_effort<std::size_t>(8'001, 70'001, 70'001)};
  CommunicatorOptions options;
  options.transport = transport;
  options.timeout = std::chrono::seconds(60);
  const auto errors = run_ranks(size, options, [&](Communicator& communicator) {
    std::mt19937_64 random(seed);  // the same on every rank
    for (const auto& entry : catalogue()) {
      for (const auto count : counts) {
        for (const bool in_place : {false, true}) {
          const int root = static_cast<int>(random() % static_cast<unsigned>(size));
          const auto what =
              fmt::format("{} by {} of {}{}, root {}: ", to_string(entry.kind),
                          to_string(entry.algorithm), count, in_place ? " in place" : "", root);
          try {
            Trial(communicator, count, in_place,
                  {.timeout = {}, .algorithm = to_string(entry.algorithm)})
                .run(entry.kind, root);
          } catch (const std::exception& error) {
            throw std::runtime_error(what + error.what());
          }
        }
      }
    }
  });
  CAPTURE(transport, size, seed);
  for (const auto& error : errors) CHECK(error == "");
}

}  // namespace

TEST_CASE("collectives: every algorithm gives the right result over every transport",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  for (const auto& kind : testing::usable_transports())
    for (const int size : sizes()) run_all(std::string(kind.name), size, seed);
}

TEST_CASE("collectives: types and operations", "[comm]") {
  const auto errors = run_ranks(3, {}, [](Communicator& communicator) {
    const auto rank = static_cast<float>(communicator.rank());
    std::vector<float> data = {rank, 2 * rank, 6};
    communicator.all_reduce(std::span(data), ReduceOp::avg);
    expect(data == std::vector<float>{1, 2, 6}, "avg");
    std::vector<std::uint8_t> bytes = {200, static_cast<std::uint8_t>(rank)};
    communicator.all_reduce(std::span(bytes), ReduceOp::sum);
    expect(bytes == std::vector<std::uint8_t>{600 % 256, 3}, "uint8 wraps");
    std::vector<std::int32_t> numbers = {static_cast<std::int32_t>(rank) - 1};
    communicator.all_reduce(std::span(numbers), ReduceOp::min);
    expect(numbers[0] == -1, "min");
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("collectives: asynchronous calls run in order, waited for in any", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CommunicatorOptions options;
    options.transport = kind.name;
    const auto errors = run_ranks(3, options, [](Communicator& communicator) {
      constexpr std::size_t kCalls = 20;
      std::vector<std::vector<std::int32_t>> data;
      std::vector<Work> works;
      for (std::size_t i = 0; i < kCalls; i++)
        data.emplace_back(1000 * i, static_cast<std::int32_t>(i) + communicator.rank());
      for (auto& buffer : data) works.push_back(communicator.all_reduce_async(std::span(buffer)));
      for (std::size_t i = kCalls; i-- > 0;) works[i].wait();
      for (std::size_t i = 0; i < kCalls; i++)
        for (const auto value : data[i])
          expect(value == static_cast<std::int32_t>(3 * i + 3), "a sum is wrong");
    });
    CAPTURE(kind.name);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("collectives: a call that nobody waits for goes on in the background", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CommunicatorOptions options;
    options.transport = kind.name;
    options.timeout = std::chrono::seconds(20);
    std::latch over(1);
    const auto errors = run_ranks(3, options, [&](Communicator& communicator) {
      std::vector<std::int64_t> data(1 << 20, 1);
      if (communicator.rank() == 2) {
        // The call needs the other ranks, which make no progress until it has returned.
        const auto got = testing::message_of([&] { communicator.all_reduce(std::span(data)); });
        over.count_down();
        expect(got == "no error", "nothing happened in the background: " + got);
      } else {
        auto work = communicator.all_reduce_async(std::span(data));
        over.wait();
        work.wait();
      }
      expect(data[0] == 3 && data.back() == 3, "a sum is wrong");
    });
    CAPTURE(kind.name);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("collectives: several communicators at once, in several threads", "[comm][stress]") {
  for (const auto& kind : testing::usable_transports()) {
    CommunicatorOptions options;
    options.transport = kind.name;
    const auto errors = run_ranks(3, options, [](Communicator& communicator) {
      std::vector<Communicator> copies;
      for (int i = 0; i < 3; i++) copies.push_back(communicator.duplicate());
      const auto inner = testing::run_threads(3, [&](int i) {
        auto& own = copies[static_cast<std::size_t>(i)];
        for (int round = 0; round < 50; round++) {
          std::vector<std::int32_t> data(static_cast<std::size_t>(1 + round * 37), round + i);
          own.all_reduce(std::span(data));
          expect(data.back() == 3 * (round + i), "communicators mix");
        }
      });
      for (const auto& error : inner) expect(error.empty(), error);
    });
    CAPTURE(kind.name);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("communicators: one store serves start-ups of any sizes, one after another", "[comm]") {
  const auto store = make_inproc_store();
  for (const int size : {2, 3, 2, 5, 1, 4}) {
    const auto errors = testing::run_threads(size, [&](int rank) {
      std::vector<Communicator> several;
      for (int i = 0; i < 3; i++) {
        several.push_back(Communicator::create(store, rank, size));
        std::vector<std::int32_t> data = {rank};
        for (auto& each : several) each.all_reduce(std::span(data), ReduceOp::max);
        expect(data[0] == size - 1, "start-ups mix");
      }
    });
    CAPTURE(size);
    for (const auto& error : errors) CHECK(error == "");
  }
}

namespace {

/// A call as explain and algorithm_for are asked about it; the root is rank 0.
struct AskedCall {
  Kind kind;
  bool ragged;
  std::size_t count;
  DataType type;
  CallOptions options;

  std::string name() const { return fmt::format("{}{}", to_string(kind), ragged ? "_v" : ""); }

  void make(Communicator& world, std::byte* in, std::byte* out) const {
    if (ragged) return make_ragged(world, in, out);
    switch (kind) {
      case Kind::all_reduce:
        return world.all_reduce(ConstBlock(in, count, type), Block(out, count, type), ReduceOp::sum,
                                options);
      case Kind::reduce:
        return world.reduce(ConstBlock(in, count, type), Block(out, count, type), ReduceOp::sum, 0,
                            options);
      case Kind::broadcast:
        return world.broadcast(ConstBlock(in, count, type), Block(out, count, type), 0, options);
      case Kind::all_gather:
        return world.all_gather(ConstBlock(in, count, type), Block(out, world.size() * count, type),
                                options);
      case Kind::reduce_scatter:
        return world.reduce_scatter(ConstBlock(in, world.size() * count, type),
                                    Block(out, count, type), ReduceOp::sum, options);
      case Kind::all_to_all:
        return world.all_to_all(ConstBlock(in, world.size() * count, type),
                                Block(out, world.size() * count, type), options);
      case Kind::gather:
        return world.gather(ConstBlock(in, count, type), Block(out, world.size() * count, type), 0,
                            options);
      case Kind::scatter:
        return world.scatter(ConstBlock(in, world.size() * count, type), Block(out, count, type), 0,
                             options);
      case Kind::barrier:
        return world.barrier(options);
    }
  }

 private:
  void make_ragged(Communicator& world, std::byte* in, std::byte* out) const {
    // A block larger than memory is never read.
    const auto bytes = count == SIZE_MAX ? 0 : count * size_of(type);
    std::vector<ConstBlock> inputs;
    std::vector<Block> outputs;
    for (int r = 0; r < world.size(); r++) {
      const auto before = static_cast<std::size_t>(r) * bytes;
      inputs.emplace_back(in + before, count, type);
      outputs.emplace_back(out + before, count, type);
    }
    if (kind == Kind::all_gather) world.all_gather_v(inputs[0], outputs, options);
    if (kind == Kind::reduce_scatter)
      world.reduce_scatter_v(inputs, outputs[0], ReduceOp::sum, options);
    if (kind == Kind::all_to_all) world.all_to_all_v(inputs, outputs, options);
    if (kind == Kind::gather) world.gather_v(inputs[0], outputs, 0, options);
    if (kind == Kind::scatter) world.scatter_v(inputs, outputs[0], 0, options);
  }
};

std::vector<AskedCall> asked_calls() {
  std::vector<std::string_view> algorithms{"", "none"};
  for (int i = 0; i <= static_cast<int>(Algorithm::two_level); i++)
    algorithms.push_back(to_string(static_cast<Algorithm>(i)));
  std::vector<AskedCall> calls;
  for (int kind = 0; kind <= static_cast<int>(Kind::barrier); kind++)
    for (const bool ragged : {false, true}) {
      if (ragged && algorithms_for(static_cast<Kind>(kind), true).empty()) continue;
      for (const auto type : {DataType::float32, DataType::bfloat16, DataType::boolean})
        for (const std::size_t count :
             {std::size_t{0}, std::size_t{5}, std::size_t{5000}, SIZE_MAX})
          for (const auto algorithm : algorithms) {
            // An operation with one block per rank has no count.
            const bool has_count = ragged || divides_whole_buffer(static_cast<Kind>(kind));
            if (count == SIZE_MAX && !has_count) continue;
            calls.push_back(
                {static_cast<Kind>(kind), ragged, count, type, {.algorithm = algorithm}});
          }
      calls.push_back({static_cast<Kind>(kind), ragged, 5, DataType::int32, {.timeout = -1ms}});
    }
  return calls;
}

}  // namespace

TEST_CASE("collectives: explain and algorithm_for say what the call does, refusals included",
          "[comm][property]") {
  const int size = GENERATE(1, 2, 3, 5);
  const bool deterministic = GENERATE(false, true);
  if (reduced() && size != 3) return;
  CommunicatorOptions options;
  options.transport = "inproc";
  options.deterministic = deterministic;
  const auto calls = asked_calls();
  const auto errors = run_ranks(size, options, [&](Communicator& world) {
    std::vector<std::byte> in(5 * 5000 * sizeof(float)), out(in.size());
    std::vector<std::string> said;  // for the calls since the last comparison
    const auto compare = [&] {
      const auto made = dump::parse(world.dump()).value().last_calls;
      for (std::size_t i = 0; i < said.size(); i++) {
        const auto& call = made[made.size() - said.size() + i];
        expect(said[i] == call.algorithm,
               fmt::format("{}: {} was foretold, {} made it", call.text, said[i], call.algorithm));
      }
      said.clear();
    };
    for (const auto& call : calls) {
      std::string algorithm, table;
      const auto foretold = message_of([&] {
        algorithm = world.algorithm_for(call.name(), call.count, call.type, call.options);
      });
      const auto explained = message_of(
          [&] { table = world.explain(call.name(), call.count, call.type, call.options); });
      std::chrono::duration<double, std::nano> predicted{};
      const auto timed = message_of([&] {
        predicted = world.predicted_time(call.name(), call.count, call.type, call.options);
      });
      const auto happened = message_of([&] { call.make(world, in.data(), out.data()); });
      const auto what = fmt::format("{} of {} {} by '{}'", call.name(), call.count,
                                    to_string(call.type), call.options.algorithm);
      expect(foretold == happened, fmt::format("{}: {}; foretold: {}", what, happened, foretold));
      expect(explained == happened,
             fmt::format("{}: {}; explained: {}", what, happened, explained));
      expect(timed == happened, fmt::format("{}: {}; predicted: {}", what, happened, timed));
      if (happened != "no error") continue;
      expect(table.find(fmt::format("Chosen: {} with", algorithm)) != std::string::npos, table);
      const auto row = fmt::format("* {:<20}{:>9.1f} µs", algorithm, predicted.count() / 1e3);
      expect(table.find(row) != std::string::npos, fmt::format("{}: not {}", table, row));
      said.push_back(algorithm);
      if (said.size() == 200) compare();
    }
    compare();
  });
  for (const auto& error : errors) CHECK(error == "");
}
