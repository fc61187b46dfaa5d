// SPDX-License-Identifier: Apache-2.0
// Blocks with gaps between their rows in CUDA's streams, on a device that the host plays.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>

#include "devices.hpp"
#include "support/gpu/cuda_on_host.hpp"

using namespace ccoll;
using namespace ccoll::testing;

namespace {

constexpr std::int32_t kGap = -1;

/// Elements in rows, or without, in memory of a device or of the host.
class Rows {
 public:
  struct Shape {
    std::size_t length = 0;  ///< 0: no rows
    std::size_t stride = 0;
    bool is_on_device = true;
  };

  Rows(const Values& values, const Shape& shape) : count_(values.size()), shape_(shape) {
    memory_.assign(shape.length == 0 ? count_ : count_ / shape.length * shape.stride, kGap);
    for (std::size_t i = 0; i < count_; i++) memory_[place(i)] = values[i];
    if (shape.is_on_device) device_.emplace(memory_);
  }

  Block block() {
    return {device_ ? device_->data() : memory_.data(), count_, kType, shape_.length,
            shape_.stride};
  }
  bool hold(const Values& values) const {
    Values wanted(memory_.size(), kGap);
    for (std::size_t i = 0; i < count_; i++) wanted[place(i)] = values[i];
    return (device_ ? device_->values() : memory_) == wanted;
  }

 private:
  std::size_t place(std::size_t i) const {
    return shape_.length == 0 ? i : i / shape_.length * shape_.stride + i % shape_.length;
  }

  std::size_t count_;
  Shape shape_;
  Values memory_;
  std::optional<Device> device_;
};

/// Rows of a length that divides the count, or none.
Rows::Shape random_shape(std::mt19937& chance, std::size_t count, bool may_use_device) {
  Rows::Shape shape{.is_on_device = may_use_device && chance() % 4 != 0};
  if (count == 0 || chance() % 4 == 0) return shape;
  std::vector<std::size_t> lengths;
  for (std::size_t each = 1; each <= count; each++)
    if (count % each == 0) lengths.push_back(each);
  shape.length = lengths[chance() % lengths.size()];
  shape.stride = shape.length + chance() % 5;
  return shape;
}

/// Makes a collective on rows, and compares with the same on the host.
void try_rows(Communicator& c, Communicator& host, const Collective& collective,
              std::mt19937& chance, bool may_use_device) {
  const auto values = ramp(collective.elems(true, c.size()), 1000 * c.rank());
  Values expected(collective.elems(false, c.size()), 7);
  const auto before = expected;
  collective.make(host, values.data(), expected.data(), {}, false);
  Rows input(values, random_shape(chance, values.size(), may_use_device));
  Rows output(before, random_shape(chance, before.size(), may_use_device));
  const OwnedStream stream;
  CallOptions options;
  if (may_use_device && chance() % 2 == 0) options.stream = stream;
  auto work = collective.make_on(c, input.block(), output.block(), options, chance() % 2 == 0);
  if (work) work->wait();
  if (options.stream) stream.wait();
  expect(output.hold(expected), "another result than the host's");
  expect(input.hold(values), "the input was written");
}

}  // namespace

TEST_CASE("devices: every collective takes rows on either side", "[comm][property]") {
  const unsigned seed = Catch::rngSeed();
  const int size = GENERATE(1, 2, 3, 4);
  const bool is_mixed = GENERATE(false, true);
  if (is_mixed && size < 3) return;
  CAPTURE(seed, size, is_mixed);
  const auto has_device = [&](int rank) { return !is_mixed || rank + 1 < size; };
  const auto body = [&](Communicator& c, Communicator& host) {
    std::mt19937 same(seed), own(seed + 1 + static_cast<unsigned>(c.rank()));
    for (int i = 0; i < by_effort(10, 40, 80); i++) {
      const std::size_t counts[] = {1, 6, 100, 4096};
      Collective collective{kKinds[same() % (std::size(kKinds) - 1)], counts[same() % 4],
                            static_cast<int>(same() % static_cast<unsigned>(size))};
      if (same() % 4 == 0) collective.op = Reduction::premultiplied_sum(3);
      try_rows(c, host, collective, own, has_device(c.rank()));
    }
  };
  check_all_well(run_on_devices_and_host(size, body, options_for(""), has_device));
}

TEST_CASE("devices: calls in place take rows", "[comm]") {
  check_all_well(run_on_devices(3, [](Communicator& c) {
    const Rows::Shape column{.length = 2, .stride = 5};
    Rows summed(Values(100, c.rank() + 1), column), sent(Values(100, c.rank()), column);
    c.all_reduce(summed.block());
    c.broadcast(sent.block(), 1);
    expect(summed.hold(Values(100, 6)), "all_reduce in place");
    expect(sent.hold(Values(100, 1)), "broadcast in place");

    // Columns of one matrix: what is received lies beside what is sent.
    constexpr std::size_t kRows = 50;
    const Device matrix(Values(kRows * 7, kGap));
    const auto columns = [&](std::size_t first, std::size_t each) {
      return Block(matrix.data() + first, each * kRows, kType, each, 7);
    };
    c.all_gather(columns(1, 1), columns(2, 3));
    c.reduce_scatter(columns(2, 3), columns(6, 1));
    Values wanted(kRows * 7, kGap);
    for (std::size_t row = 0; row < kRows; row++) wanted[7 * row + 6] = -3;
    expect(matrix.values() == wanted, "columns beside each other");
  }));
}

TEST_CASE("devices: several buffers, and blocks of several sizes, may have rows", "[comm]") {
  check_all_well(run_on_devices(3, [](Communicator& c) {
    const auto me = static_cast<std::size_t>(c.rank());
    Rows first(Values(60, c.rank()), {.length = 3, .stride = 4});
    Rows second(Values(60, 2), {.length = 60, .stride = 60});
    Rows third(Values(60, 3), {.length = 4, .stride = 9, .is_on_device = false});
    c.all_reduce(std::vector{BufferPair(first.block()), BufferPair(second.block()),
                             BufferPair(third.block())});
    expect(first.hold(Values(60, 3)) && second.hold(Values(60, 6)) && third.hold(Values(60, 9)),
           "all_reduce of several buffers");

    Rows mine(Values(4 * (me + 1), c.rank()), {.length = 2, .stride = 3});
    std::vector<Rows> parts;
    std::vector<Block> blocks;
    for (std::size_t rank = 0; rank < 3; rank++)
      parts.emplace_back(Values(4 * (rank + 1), kGap),
                         Rows::Shape{.length = 4, .stride = 6, .is_on_device = rank != 1});
    for (auto& part : parts) blocks.push_back(part.block());
    c.all_gather_v(mine.block(), blocks);
    for (std::size_t rank = 0; rank < 3; rank++)
      expect(parts[rank].hold(Values(4 * (rank + 1), static_cast<std::int32_t>(rank))),
             "all_gather_v");
  }));
}

TEST_CASE("devices: messages take rows, whatever their length", "[comm]") {
  const std::size_t count = GENERATE(6, 6000, 600'000);
  CAPTURE(count);
  check_all_well(run_on_devices(2, [count](Communicator& c) {
    const int other = 1 - c.rank();
    const OwnedStream stream;
    for (const bool in_stream : {false, true}) {
      // Only one of two ranks has rows to send.
      const Rows::Shape gaps{.length = 3, .stride = 5};
      Rows sent(ramp(count, c.rank()), c.rank() == 0 ? Rows::Shape{} : gaps);
      Rows got(Values(count + 6, 7), {.length = 2, .stride = 4});
      CallOptions options;
      if (in_stream) options.stream = stream;
      c.send_recv(sent.block(), other, got.block(), other, 0, options);
      if (in_stream) stream.wait();
      auto wanted = ramp(count, other);
      wanted.resize(count + 6, 7);
      expect(got.hold(wanted), "a message, and what it leaves as it was");
    }
  }));
}

TEST_CASE("devices: a graph packs rows at each launch", "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    Rows values(Values(60, 1), {.length = 3, .stride = 4});
    Rows got(Values(60), {.length = 6, .stride = 7});
    c.barrier();
    const int other = 1 - c.rank();
    const Graph graph(stream, [&] {
      c.all_reduce(values.block(), ReduceOp::sum, in(stream));
      c.send_recv(values.block(), other, got.block(), other, 0, in(stream));
    });
    for (int i = 0; i < 3; i++) graph.launch(stream);
    stream.wait();
    expect(values.hold(Values(60, 8)) && got.hold(Values(60, 8)), "a graph's rows");
  }));
}

TEST_CASE("devices: rows of the host come back, also where the host makes a device's call",
          "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    const Rows::Shape on_host{.length = 3, .stride = 4, .is_on_device = false};
    Rows values(Values(60, c.rank() + 1), on_host);
    c.all_reduce(values.block());
    expect(values.hold(Values(60, 3)), "plain");

    // Its elements are combined in float32, which devices leave to the host.
    std::vector<std::uint16_t> halves(80, 0x3f80);
    const Block columns(halves.data(), 60, DataType::bfloat16, 3, 4);
    for (std::size_t i = 0; i < halves.size(); i++)
      if (i % 4 != 3) halves[i] = c.rank() == 0 ? 0x3f80 : 0x4040;  // 1 and 3
    CallOptions ring;
    ring.algorithm = "ring";
    c.all_reduce(columns, ReduceOp::avg, ring);
    for (std::size_t i = 0; i < halves.size(); i++)
      expect(halves[i] == (i % 4 == 3 ? 0x3f80 : 0x4000), "an average");

    // The streams of ranks that are captured apart, too.
    Rows again(Values(60, 1), on_host);
    const Graph graph(stream, [&] { c.all_reduce(again.block(), ReduceOp::sum, in(stream)); });
    for (int i = 0; i < 3; i++) graph.launch(stream);
    stream.wait();
    expect(again.hold(Values(60, 8)), "in a graph");
  }));
}

TEST_CASE("devices: rows may be in several allocations, and any distance apart", "[comm]") {
  check_all_well(run_on_devices(1, [](Communicator& c) {
    const Device one(ramp(50, 100)), two(ramp(50, 200));
    const auto& low = one.data() < two.data() ? one : two;
    const auto& high = one.data() < two.data() ? two : one;
    const auto apart = static_cast<std::size_t>(high.data() - low.data());
    const Device got(Values(10));
    c.all_gather(ConstBlock(low.data() + 7, 10, kType, 5, apart), Block(got.data(), 10, kType));
    auto wanted = ramp(5, low.values()[7]);
    const auto second = ramp(5, high.values()[7]);
    wanted.insert(wanted.end(), second.begin(), second.end());
    expect(got.values() == wanted, "rows of two allocations");
  }));
}

TEST_CASE("devices: memory for rows is used again", "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const auto call = [&](std::size_t count) {
      Rows values(Values(count, 1), {.length = 3, .stride = 4});
      c.all_reduce(values.block());
      expect(values.hold(Values(count, 2)), "all_reduce");
    };
    call(60'000);
    const auto before = c.counters().device_memory_bytes;
    for (std::size_t i = 0; i < 40; i++) call(60'000 - 600 * i);
    // A call may begin before all that the one before it had is given back.
    constexpr std::uint64_t kThreeCalls = 3 * 60'000 * sizeof(std::int32_t) * 9 / 8;
    const auto after = c.counters().device_memory_bytes;
    expect(after <= before + kThreeCalls, fmt::format("{} bytes, before {}", after, before));
  }));
}

TEST_CASE("devices: calls of a group may have rows", "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    const int other = 1 - c.rank();
    Rows values(Values(60, 1), {.length = 3, .stride = 4});
    Rows got(Values(60), {.length = 6, .stride = 7});
    {
      CallGroup group;
      c.all_reduce(values.block(), ReduceOp::sum, in(stream));
      c.send(values.block(), other, 0, in(stream));
      c.recv(got.block(), other, 0, in(stream));
      group.end();
    }
    stream.wait();
    expect(values.hold(Values(60, 2)) && got.hold(Values(60, 2)), "a group's rows");
  }));
}

TEST_CASE("devices: rows that leave a GPU's memory are refused", "[comm]") {
  check_all_well(run_on_devices(1, [](Communicator& c) {
    const Device memory(Values(1000));
    const Block beyond(memory.data(), 20, kType, 2, std::size_t{1} << 36);
    std::string told;
    try {
      c.all_reduce(beyond);
    } catch (const Error& error) {
      told = error.what();
    }
    expect(told.find("row 1 is elsewhere") != std::string::npos, "it says: " + told);
    c.barrier();
  }));
}
