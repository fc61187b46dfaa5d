// SPDX-License-Identifier: Apache-2.0
// Calls that the host makes in parts, on a device that it plays itself: their results, the memory
// they take, what overlaps, and how they end.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <span>
#include <thread>

#include "devices.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

using Floats = std::vector<float>;
using FloatsThere = DeviceBuffer<float>;

/// The ring takes three quarters of it.
constexpr std::size_t kRoom = 1 << 20, kRing = kRoom / 4 * 3;

CommunicatorOptions with_little_room(const std::string& transport = "") {
  auto options = options_for(transport);
  options.device.staging_bytes = kRoom;
  return options;
}

Floats random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Floats values(count);
  for (auto& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
  return values;
}

bool are_same(const Floats& some, const Floats& others) {
  return std::ranges::equal(std::as_bytes(std::span(some)), std::as_bytes(std::span(others)));
}

/// One call of a rank, on buffers of the device or of the host.
struct Place {
  bool device_in = false;
  bool device_out = false;
  enum class How { plain, in_stream, in_graph } how = How::plain;
};

/// Makes the call `times` times and returns the output.
Floats make(Communicator& c, const Collective& collective, const Floats& input,
            std::size_t out_elems, const Place& place, int times) {
  const OwnedStream stream;
  const FloatsThere there(input), out_there(Floats(out_elems, -1.0F));
  auto here = input;
  Floats out_here(out_elems, -1.0F);
  const void* const from = place.device_in ? there.data() : here.data();
  void* const to = place.device_out ? static_cast<void*>(out_there.data()) : out_here.data();
  const auto options = place.how == Place::How::plain ? CallOptions{} : in(stream);
  const auto call = [&] { collective.make_of(DataType::float32, c, from, to, options); };
  if (place.how == Place::How::in_graph) {
    const Graph graph(stream, call);
    for (int i = 0; i < times; i++) graph.launch(stream);
    stream.wait();
  } else {
    for (int i = 0; i < times; i++) call();
    stream.wait();
  }
  expect(are_same(place.device_in ? there.values() : here, input), "the input was written");
  return place.device_out ? out_there.values() : out_here;
}

/// A reduction that stops at an element with a value of its own until it is released.
struct Gate {
  static constexpr std::int32_t kHere = 1'000'000;
  std::atomic<bool> is_there{false}, may_go{false};

  Reduction reduction() {
    return Reduction::custom(
        [this](const void* from, void* into, std::size_t count, DataType) {
          const auto* const a = static_cast<const std::int32_t*>(from);
          auto* const b = static_cast<std::int32_t*>(into);
          for (std::size_t k = 0; k < count; k++) {
            if (b[k] == kHere) is_there = true;
            b[k] += a[k];
          }
          static_cast<void>(eventually([this] { return !is_there || may_go; }, 20s));
        },
        {.name = "sum that waits"});
  }
};

/// In-place all_reduces below have eight parts of 256 KiB, whatever window the links have.
constexpr std::size_t kLargeCount = 512 << 10, kOfPart = kLargeCount / 8;
/// The element at which a Gate stops the rank that combines it.
constexpr std::size_t kGateAt = 3 * kOfPart + 77;

Values with_gate(Communicator& c) {
  Values values(kLargeCount, 1 + c.rank());
  values[kGateAt] = Gate::kHere;
  return values;
}

CallOptions by_one_block(CallOptions options) {
  options.algorithm = "one_shot";
  return options;
}

}  // namespace

TEST_CASE("devices: large calls leave to the bit what they leave on the host, in bounded memory",
          "[comm][property]") {
  if (way() != "host") return;
  const unsigned seed = std::random_device{}();
  const auto transport = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const int size = GENERATE(1, 2, 3);
  const bool is_mixed = GENERATE(false, true);
  if (is_mixed && size == 1) return;
  CAPTURE(seed, transport, size, is_mixed);
  const auto has_device = [&](int rank) { return !is_mixed || rank + 1 < size; };
  const int trials = testing::by_effort(4, 8, 40);
  const auto body = [&](Communicator& c, Communicator& host) {
    std::mt19937 same(seed);
    std::mt19937 own(seed + 1 + static_cast<unsigned>(c.rank()));
    std::size_t graphs = 0;
    for (int i = 0; i < trials; i++) {
      Collective collective{kKinds[same() % 8], 0, static_cast<int>(same() % c.size())};
      // The larger buffer takes 2 to 5 times the room.
      const auto bytes = 2 * kRoom + same() % (3 * kRoom);
      collective.count = 1;
      const auto blocks = std::max(collective.elems(true, size), collective.elems(false, size));
      collective.count = bytes / sizeof(float) / blocks;
      const auto input = random_floats(collective.elems(true, size), own());
      const auto out_elems = collective.elems(false, size);
      const auto times = 1 + static_cast<int>(same() % 2);
      const auto expected = make(host, collective, input, out_elems, {}, 1);
      Place place;
      if (has_device(c.rank())) {
        place = {own() % 4 != 0, own() % 4 != 0, static_cast<Place::How>(own() % 3)};
        graphs += place.how == Place::How::in_graph ? 1 : 0;
      }
      const auto got = make(c, collective, input, out_elems, place, times);
      expect(are_same(got, expected), fmt::format("{} of {}: another result than the host's",
                                                  to_string(collective.kind), collective.count));
      const auto held = c.counters().device_memory_bytes;
      const auto limit = kRing + graphs * kRoom;
      expect(held <= limit, fmt::format("{} bytes of pinned memory, with {} graphs", held, graphs));
    }
  };
  check_all_well(run_on_devices_and_host(size, body, with_little_room(transport), has_device));
}

TEST_CASE("devices: large blocks that lie here and there, and in place", "[comm]") {
  const auto transport = GENERATE(as<std::string>(), "shm", "tcp");
  check_all_well(run_on_devices(
      3,
      [](Communicator& c) {
        const OwnedStream stream;
        const auto me = static_cast<std::size_t>(c.rank());
        // From rank r to rank s; some blocks are empty.
        const auto elems = [](std::size_t r, std::size_t s) {
          return (r + 2 * s) % 4 == 0 ? 0 : 100'000 * (1 + (r + s) % 3) + 7 * s;
        };
        const auto value = [](std::size_t r, std::size_t s) {
          return static_cast<int>(100 * r + 10 * s);
        };
        std::vector<Device> there_in, there_out;
        std::vector<Values> here_in, here_out;
        for (std::size_t i = 0; i < 3; i++) {
          there_in.emplace_back(ramp(elems(me, i), value(me, i)));
          here_in.push_back(ramp(elems(me, i), value(me, i)));
          there_out.emplace_back(Values(elems(i, me)));
          here_out.emplace_back(elems(i, me));
        }
        std::vector<ConstBlock> from;
        std::vector<Block> to;
        const auto is_there = [&](std::size_t i) { return (i + me) % 3 != 0; };
        for (std::size_t i = 0; i < 3; i++) {
          from.push_back(
              {is_there(i) ? there_in[i].data() : here_in[i].data(), here_in[i].size(), kType});
          to.push_back({is_there(i + 1) ? there_out[i].data() : here_out[i].data(),
                        here_out[i].size(), kType});
        }
        c.all_to_all_v(from, to, in(stream));
        // A call in place with several buffers.
        const Device a(ramp(300'000, c.rank()));
        Values b = ramp(70'000, c.rank());
        const Device d(ramp(200'001, c.rank()));
        const BufferPair pairs[] = {Block(a.data(), 300'000, kType), Block(b.data(), 70'000, kType),
                                    Block(d.data(), 200'001, kType)};
        c.all_reduce(pairs, ReduceOp::max, in(stream));
        Values gathered(3 * 400'000, -1);
        std::ranges::copy(ramp(400'000, 9 * c.rank()), gathered.begin() + 400'000 * c.rank());
        const Device all(gathered);
        c.all_gather(ConstBlock(all.data() + 400'000 * me, 400'000, kType),
                     Block(all.data(), c.size() * 400'000, kType), in(stream));
        const Device scattered(ramp(3 * 300'000, c.rank()));
        c.reduce_scatter(ConstBlock(scattered.data(), c.size() * 300'000, kType),
                         Block(scattered.data() + 300'000 * me, 300'000, kType), ReduceOp::sum,
                         in(stream));
        stream.wait();
        for (std::size_t i = 0; i < 3; i++)
          expect((is_there(i + 1) ? there_out[i].values() : here_out[i]) ==
                     ramp(elems(i, me), value(i, me)),
                 fmt::format("block {}", i));
        expect(a.values() == ramp(300'000, 2) && b == ramp(70'000, 2) &&
                   d.values() == ramp(200'001, 2),
               "buffers here and there");
        for (int rank = 0; rank < 3; rank++)
          std::ranges::copy(ramp(400'000, 9 * rank), gathered.begin() + 400'000 * rank);
        expect(all.values() == gathered, "all_gather in place");
        auto sums = ramp(3 * 300'000, 0);
        for (auto& sum : sums) sum = 3 * sum + 3;
        const auto got = scattered.values();
        const auto first = static_cast<std::ptrdiff_t>(300'000 * me);
        expect(std::equal(got.begin() + first, got.begin() + first + 300'000, sums.begin() + first),
               "reduce_scatter in place");
        if (way() == "host")
          expect(c.counters().device_memory_bytes == kRing, "more memory than there should be");
      },
      with_little_room(transport)));
}

TEST_CASE("devices: blocks of one length are one copy of each part", "[comm]") {
  if (way() != "host") return;
  constexpr int kRanks = 3;
  std::atomic<int> here{0};
  check_all_well(run_on_devices(
      kRanks,
      [&](Communicator& c) {
        const OwnedStream stream;
        const Device input(ramp(200'000, c.rank())), output(Values(kRanks * 200'000));
        here++;
        eventually([&] { return here == kRanks; });
        const auto before = cuda_on_host_copies();
        c.barrier();
        c.all_gather(ConstBlock(input.data(), 200'000, kType),
                     Block(output.data(), c.size() * 200'000, kType), in(stream));
        stream.wait();
        c.barrier();
        // 3.2 MB are at least 13 parts, each with one block that is read and three that are
        // written.
        const auto copies = cuda_on_host_copies() - before;
        expect(copies % kRanks == 0 && copies / kRanks >= 26 && copies / kRanks <= 30,
               fmt::format("{} copies", copies));
        for (int rank = 0; rank < kRanks; rank++)
          expect(output.values()[static_cast<std::size_t>(rank) * 200'000 + 7] == rank + 7,
                 "wrong");
      },
      with_little_room()));
}

TEST_CASE("devices: what a part reads comes, and what another has written goes, beside the host's",
          "[comm]") {
  if (way() != "host") return;
  Gate gate;
  std::atomic<std::uint64_t> before{0};
  std::atomic<bool> is_called{false};
  check_all_well(run_on_devices(
      2,
      [&](Communicator& c) {
        const OwnedStream stream;
        if (c.rank() == 1) {
          // At first the other rank's host has finished no window.
          expect(eventually([&] { return is_called.load(); }), "the call has not been made");
          expect(eventually([&] { return cuda_on_host_copied() - before == 2 * 4 * kOfPart; }),
                 fmt::format("{} bytes before the first part", cuda_on_host_copied() - before));
          Values here = with_gate(c);
          c.all_reduce(Block(here.data(), kLargeCount, kType), gate.reduction(), by_one_block({}));
          return expect(here[kLargeCount - 1] == 3 && here[kGateAt] == 2 * Gate::kHere, "the sums");
        }
        const Device there(with_gate(c));
        before = cuda_on_host_copied();
        auto work = c.all_reduce_async(Block(there.data(), kLargeCount, kType), gate.reduction(),
                                       by_one_block(in(stream)));
        is_called = true;
        std::jthread looking([&] {
          const auto results = [&](std::size_t part) { return there.data()[part * kOfPart]; };
          const bool is_there = eventually([&] { return gate.is_there.load(); });
          // The host works on part 3: part 4 has arrived, and the results of part 2 are on the
          // device.
          const bool has_come =
              eventually([&] { return cuda_on_host_copied() - before == (5 + 3) * 4 * kOfPart; });
          const bool is_right = results(0) == 3 && results(2) == 3 && results(3) == 1;
          const auto copied = cuda_on_host_copied() - before;
          const bool is_over = work.test();
          gate.may_go = true;
          CHECK(is_there);
          CHECK(has_come);
          CHECK(copied == (5 + 3) * 4 * kOfPart);
          CHECK(is_right);
          CHECK_FALSE(is_over);
        });
        work.wait();
        looking.join();
        stream.wait();
        Values sums(kLargeCount, 3);
        sums[kGateAt] = 2 * Gate::kHere;
        expect(there.values() == sums, "the sums");
      },
      with_little_room(), [](int rank) { return rank == 0; }));
}

TEST_CASE("devices: whatever ends a call between its parts lets streams go on", "[comm]") {
  if (way() != "host") return;
  const auto how = GENERATE(as<std::string>(), "abort", "time limit", "close");
  const bool in_graph = GENERATE(false, true);
  CAPTURE(how, in_graph);
  auto options = with_little_room();
  if (how == "time limit") options.timeout = 500ms;
  Gate gate;
  std::atomic<int> over{0};
  const auto errors = run_on_devices(
      2,
      [&](Communicator& c) {
        const OwnedStream stream;
        const Device there(with_gate(c));
        std::optional<Work> work;
        const auto call = [&] {
          work = c.all_reduce_async(Block(there.data(), kLargeCount, kType), gate.reduction(),
                                    by_one_block(in(stream)));
        };
        std::optional<Graph> graph;
        if (in_graph) graph.emplace(stream, call);
        c.barrier();
        graph ? graph->launch(stream) : call();
        std::thread ending;
        if (c.rank() == 1) {
          ending = std::thread([&] {
            eventually([&] { return gate.is_there.load(); });
            if (how == "abort") c.abort("enough");
            if (how == "time limit") be_late(1s);
            gate.may_go = true;
          });
        }
        if (how == "close" && c.rank() == 1) {
          ending.join();
          c.close();
        }
        const auto ends = ends_within(20s, stream);
        if (ending.joinable()) ending.join();
        if (how != "close") wait_for_error(c);
        const auto told = how == "close" ? std::string() : c.error();
        // A graph that still holds it must not block anything, either.
        if (graph) {
          graph->launch(stream);
          expect(ends_within(20s, stream), "the graph's second run stands");
        }
        over++;
        eventually([&] { return over == 2; });
        expect(ends, "the stream stands");
        throw std::runtime_error("told: " + told);
      },
      options);
  for (const auto& error : errors) {
    if (how == "abort") CHECK_THAT(error, Catch::Contains("enough"));
    if (how == "time limit") CHECK_THAT(error, Catch::Contains("timed out"));
    CHECK_THAT(error, Catch::StartsWith("told: "));
  }
}

TEST_CASE("devices: large calls that differ are told, and their streams go on", "[comm]") {
  if (way() != "host") return;
  const bool has_device = GENERATE(false, true);
  const auto errors = run_on_devices(
      2,
      [](Communicator& c) {
        const OwnedStream stream;
        const std::size_t count = kLargeCount + static_cast<std::size_t>(c.rank());
        const Device there(Values(count, 1));
        Values here(count, 1);
        const bool is_there = c.rank() == 0;
        auto* const buffer = is_there ? there.data() : here.data();
        auto call = is_there ? in(stream) : CallOptions{};
        call.label = is_there ? "gradients" : "weights";
        auto work = c.all_reduce_async(Block(buffer, count, kType), ReduceOp::sum, call);
        expect(!is_there || ends_within(20s, stream), "the stream stands");
        work.wait();
      },
      with_little_room(), [&](int rank) { return rank == 0 || has_device; });
  for (const auto& error : errors)
    CHECK_THAT(error, Catch::Contains("gradients") && Catch::Contains("weights") &&
                          Catch::Contains("524288") && Catch::Contains("524289"));
}

TEST_CASE("devices: large calls and small ones in several streams, by one thread or several",
          "[comm]") {
  if (way() != "host") return;
  constexpr std::size_t kRanks = 3;
  auto options = on_device(with_little_room());
  auto ranks = Communicator::create_all(kRanks, options);
  for (int round = 0; round < 3; round++) {
    const OwnedStream streams[2 * kRanks];
    std::vector<Device> large, small, behind;
    for (std::size_t i = 0; i < kRanks; i++) {
      large.emplace_back(ramp(kLargeCount, static_cast<int>(i)));
      small.emplace_back(ramp(1000, static_cast<int>(i)));
      behind.emplace_back(Values(kRanks * 200'000, static_cast<int>(i)));
    }
    const auto call_all = [&](std::size_t i) {
      const auto first = in(streams[2 * i]), second = in(streams[2 * i + 1]);
      ranks[i].all_reduce(Block(large[i].data(), kLargeCount, kType), ReduceOp::sum, first);
      ranks[i].all_reduce(Block(small[i].data(), 1000, kType), ReduceOp::sum, second);
      ranks[i].all_gather(ConstBlock(behind[i].data() + 200'000 * i, 200'000, kType),
                          Block(behind[i].data(), ranks[i].size() * 200'000, kType), second);
      ranks[i].all_reduce(Block(large[i].data(), kLargeCount, kType), ReduceOp::max, first);
    };
    if (round == 1) {
      check_all_well(
          run_threads(kRanks, [&](int rank) { call_all(static_cast<std::size_t>(rank)); }));
    } else {
      CallGroup group;
      for (std::size_t i = 0; i < kRanks; i++) call_all(i);
      group.end();
    }
    for (const auto& stream : streams) stream.wait();
    auto sums = ramp(kLargeCount, 1);
    for (auto& sum : sums) sum *= 3;
    for (std::size_t i = 0; i < kRanks; i++) {
      CHECK(large[i].values() == sums);
      CHECK(small[i].values()[999] == 3 * 1000);
      CHECK(behind[i].values()[200'000 * 2] == 2);
      CHECK(behind[i].values()[200'000] == 1);
      CHECK(ranks[i].counters().device_memory_bytes == kRing);
      CHECK(ranks[i].error().empty());
    }
  }
}

TEST_CASE("devices: a buffer that ends before its call does is refused", "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const FloatsThere there(Floats(20, 1));
    const auto expect_refusal = [&](std::size_t count, const std::function<void()>& call) {
      const auto error = message_of(call);
      expect(error.find(fmt::format("a buffer of {} bytes begins in memory of GPU {} and ends "
                                    "elsewhere",
                                    4 * count, gpu_of(c.rank()))) != error.npos,
             error);
    };
    const int peer = 1 - c.rank();
    for (const auto count : {std::size_t{1} << 40, std::size_t{1} << 50}) {
      expect_refusal(count, [&] { c.all_reduce(Block(there.data(), count, DataType::float32)); });
      expect_refusal(count,
                     [&] { c.send(ConstBlock(there.data(), count, DataType::float32), peer); });
      expect_refusal(count, [&] { c.recv(Block(there.data(), count, DataType::float32), peer); });
    }
    c.all_reduce(Block(there.data(), 20, DataType::float32));
    expect(there.values() == Floats(20, 2), "a call behind those");
  }));
}
