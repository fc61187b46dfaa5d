// SPDX-License-Identifier: Apache-2.0
// Collectives that devices make by themselves, on a device that the host plays: the choice of way,
// that no data goes through the host, and the differences from calls that the host makes.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <span>
#include <thread>

#include "comm/streams/device_ways.hpp"
#include "core/element.hpp"
#include "devices.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/logged.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

std::vector<PeerAddress> addresses(std::size_t count) {
  std::vector<PeerAddress> ranks(count);
  for (auto& rank : ranks) {
    rank.host = 1;
    rank.process = 2;
    rank.device = 3;
  }
  return ranks;
}

using Bytes = std::vector<std::byte>;

/// The same on all ranks.
struct Draw {
  Collective collective;
  DataType type = DataType::uint8;
  bool in_place = false;
};

Draw random_draw(std::mt19937& chance, int size) {
  const std::size_t counts[] = {0, 1, 2, 17, 1000, 20'011};
  Draw draw;
  draw.collective.kind = kKinds[chance() % std::size(kKinds)];
  draw.collective.count = counts[chance() % std::size(counts)];
  draw.collective.root = static_cast<int>(chance() % static_cast<unsigned>(size));
  draw.type = kDataTypes[chance() % kDataTypes.size()];
  do {
    draw.collective.op = kReduceOps[chance() % kReduceOps.size()];
  } while (!is_defined(draw.collective.op.op(), draw.type));
  const auto kind = draw.collective.kind;
  draw.in_place = (kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::broadcast) &&
                  chance() % 3 == 0;
  return draw;
}

}  // namespace

TEST_CASE("devices: the way follows from where ranks are", "[comm][unit]") {
  CHECK(pick_device_way(addresses(1), DeviceWay::automatic).way == DeviceWay::team);
  CHECK(pick_device_way(addresses(4), DeviceWay::automatic).way == DeviceWay::team);
  CHECK(pick_device_way(addresses(4), DeviceWay::steps).way == DeviceWay::steps);
  CHECK(pick_device_way(addresses(4), DeviceWay::host).way == DeviceWay::host);
  CHECK(pick_device_way(addresses(65), DeviceWay::automatic).way == DeviceWay::host);
  auto ranks = addresses(4);
  ranks[3].process = 7;
  CHECK(pick_device_way(ranks, DeviceWay::automatic).way == DeviceWay::steps);
  const auto refused = pick_device_way(ranks, DeviceWay::team);
  CHECK(refused.way == DeviceWay::host);
  CHECK(refused.why ==
        "team was asked for, but 4 ranks are several processes of one host, which share GPUs");
  // Ranks of several processes form a team if each has a GPU of its own.
  for (std::uint32_t rank = 0; rank < 4; rank++) ranks[rank].device = 1 + rank;
  const auto across = pick_device_way(ranks, DeviceWay::automatic);
  CHECK(across.way == DeviceWay::team);
  CHECK(across.is_across);
  CHECK(across.why == "4 ranks of several processes of one host have a GPU each");
  CHECK(across.next == DeviceWay::steps);
  CHECK(pick_device_way(ranks, DeviceWay::team).is_across);
  CHECK(pick_device_way(ranks, DeviceWay::team).next == DeviceWay::host);
  CHECK(pick_device_way(ranks, DeviceWay::steps).way == DeviceWay::steps);
  CHECK_FALSE(pick_device_way(ranks, DeviceWay::steps).is_across);
  ranks[2].device = ranks[0].device;
  CHECK(pick_device_way(ranks, DeviceWay::automatic).way == DeviceWay::steps);
  auto many = addresses(17);
  for (std::uint32_t rank = 0; rank < 17; rank++)
    many[rank].device = 1 + rank, many[rank].process = rank / 2;
  CHECK(pick_device_way(many, DeviceWay::automatic).way == DeviceWay::steps);
  many.pop_back();
  CHECK(pick_device_way(many, DeviceWay::automatic).way == DeviceWay::team);
  ranks[1].host = 9;
  CHECK(pick_device_way(ranks, DeviceWay::automatic).way == DeviceWay::host);
  ranks = addresses(4);
  ranks[2].device = 8;
  CHECK(pick_device_way(ranks, DeviceWay::automatic).way == DeviceWay::team);
  CHECK(pick_device_way(ranks, DeviceWay::automatic).why ==
        "4 ranks are threads of one process on 2 GPUs");
  // If GPUs cannot reach each other, streams may do; if a team was requested, only the host can.
  CHECK(pick_device_way(ranks, DeviceWay::automatic).next == DeviceWay::steps);
  CHECK(pick_device_way(ranks, DeviceWay::team).next == DeviceWay::host);
  CHECK(pick_device_way(addresses(4), DeviceWay::automatic).next == DeviceWay::host);
  CHECK(pick_device_way(ranks, DeviceWay::steps).way == DeviceWay::steps);
  CHECK(pick_device_way(ranks, DeviceWay::automatic).gpus == 2);
  ranks[2].device = 0;
  CHECK(pick_device_way(ranks, DeviceWay::steps).way == DeviceWay::host);
  CHECK(pick_device_way(ranks, DeviceWay::automatic).why == "rank 2 without a GPU");
}

TEST_CASE("devices: the least share that a rank gives counts", "[comm][unit]") {
  const auto copies = [](DeviceCopies which) { return static_cast<std::uint8_t>(which); };
  auto ranks = addresses(3);
  CHECK(least_share(ranks) == DeviceShare{0, DeviceCopies::by_size});
  ranks[1].device_blocks = 7;
  CHECK(least_share(ranks) == DeviceShare{7, DeviceCopies::by_size});
  ranks[2].device_blocks = 5;
  for (auto& rank : ranks) rank.device_copies = copies(DeviceCopies::always);
  CHECK(least_share(ranks) == DeviceShare{5, DeviceCopies::always});
  ranks[2].device_copies = copies(DeviceCopies::by_size);
  CHECK(least_share(ranks).copies == DeviceCopies::by_size);
  ranks[0].device_copies = copies(DeviceCopies::never);
  CHECK(least_share(ranks).copies == DeviceCopies::never);
  for (const auto way : {DeviceWay::automatic, DeviceWay::steps, DeviceWay::host})
    CHECK(pick_device_way(ranks, way).share == DeviceShare{5, DeviceCopies::never});
}

TEST_CASE("devices: ranks that give their GPUs' shares differently do the same", "[comm]") {
  if (way() == "host") return;
  const int frugal = GENERATE(0, 1);
  const bool limits_blocks = GENERATE(false, true);
  const auto store = make_inproc_store();
  use_gpu_of(0);
  const auto kernels = cuda_on_host_team_kernels();
  check_all_well(run_threads(2, [&](int rank) {
    if (gpus() > 1) check_cuda(cudaSetDevice(gpu_of(rank)), "a device");
    auto options = on_device(options_for(""), rank);
    options.device.copies = rank == frugal ? DeviceCopies::never : DeviceCopies::always;
    options.device.blocks = rank == frugal && limits_blocks ? 1 : 0;
    options.device.staging_bytes = (1 << 20) + 4096 * (limits_blocks ? 1 : 2);  // a new size
    auto c = Communicator::create(store, rank, 2, options);
    const OwnedStream stream;
    const Device mine(ramp(1000, 1000 * rank)), all(Values(2000));
    for (int i = 0; i < 3; i++) {
      c.all_gather(ConstBlock(mine.data(), 1000, kType), Block(all.data(), 2000, kType),
                   in(stream));
      stream.wait();
      expect(all.values() == ramp(2000, 0), "what was gathered");
    }
    // A team needs at least one block for each rank on a GPU.
    const bool is_refused = limits_blocks && way() == "team" && gpus() == 1;
    expect((c.counters().device_memory_bytes != 0) == is_refused, "it went the other way");
  }));
  // Copies are used only if all ranks want them.
  const bool is_refused = limits_blocks && gpus() == 1;
  if (way() == "team") CHECK((cuda_on_host_team_kernels() != kernels) == !is_refused);
}

TEST_CASE("devices: every type and operation, anywhere, by the bits that the host leaves",
          "[comm][property]") {
  const unsigned seed = std::random_device{}();
  const int size = GENERATE(1, 2, 3, 4, 8);
  CAPTURE(seed, size);
  const int trials = by_effort(20, 80, 1000);
  auto options = options_for("");
  // Then the bits depend on the ranks' contributions alone.
  options.deterministic = true;
  const auto body = [&](Communicator& communicator, Communicator& host) {
    std::mt19937 same(seed);
    std::mt19937 own(seed + 1 + static_cast<unsigned>(communicator.rank()));
    const OwnedStream stream;
    for (int i = 0; i < trials; i++) {
      const auto draw = random_draw(same, size);
      const auto bytes = [&](bool input) {
        return draw.collective.elems(input, size) * size_of(draw.type);
      };
      Bytes input(bytes(true)), output(bytes(false));
      for (auto& byte : input) byte = static_cast<std::byte>(own());
      for (auto& byte : output) byte = static_cast<std::byte>(own());
      if (draw.in_place) output = input;
      // The bytes before and behind must stay untouched.
      const std::size_t offset = own() % 64, guard = 64;
      Bytes around(offset + output.size() + guard, std::byte{0x5a});
      std::ranges::copy(output, around.begin() + static_cast<std::ptrdiff_t>(offset));
      Bytes placed(own() % 64);
      const auto input_offset = placed.size();
      placed.insert(placed.end(), input.begin(), input.end());
      const DeviceBuffer<std::byte> there(around), from(placed);
      auto* const to = there.data() + offset;
      const auto call = draw.collective;
      call.make_of(draw.type, communicator, draw.in_place ? to : from.data() + input_offset, to,
                   in(stream));
      stream.wait();
      auto expected = output;
      call.make_of(draw.type, host, draw.in_place ? expected.data() : input.data(), expected.data(),
                   {});
      std::ranges::copy(expected, around.begin() + static_cast<std::ptrdiff_t>(offset));
      expect(
          there.values() == around,
          fmt::format("{} of {} {}, {}{}", to_string(call.kind), call.count, to_string(draw.type),
                      to_string(call.op.op()), draw.in_place ? ", in place" : ""));
      expect(from.values() == placed, "the input was written");
    }
  };
  check_all_well(run_on_devices_and_host(size, body, options, [](int) { return true; }));
}

TEST_CASE("devices: nothing of what devices make goes through the host", "[comm]") {
  if (way() == "host") return;
  auto options = options_for("");
  options.device.staging_bytes = (1 << 20) + 256;  // no test has used this size
  check_all_well(run_on_devices(
      3,
      [&](Communicator& c) {
        const OwnedStream stream;
        const Device sums(ramp(10'000, c.rank()));
        Values here = ramp(10'000, c.rank());
        c.all_reduce(Block(sums.data(), 10'000, kType), ReduceOp::sum, in(stream));
        c.barrier(in(stream));
        stream.wait();
        expect(c.counters().device_memory_bytes == 0, "memory of the host was taken");
        // It includes flags and programs, and is within a rank's default limit.
        const auto held = c.counters().device_workspace_bytes;
        const std::uint64_t least =
            options.device.workspace_bytes + (way() == "steps" ? 0 : 7 << 20);
        expect(least <= held && held <= 64 << 20, fmt::format("{} bytes of the device", held));
        const auto explained = c.explain("all_reduce", 1000, kType);
        expect(explained.starts_with("made by GPUs, by " + way() + " (") &&
                   !c.explain("all_gather_v", 1000, kType).starts_with("made"),
               explained);
        // Only the rank's own data on the host is copied.
        c.all_reduce(Block(here.data(), 10'000, kType), ReduceOp::max);
        expect(here == ramp(10'000, 2), "a call on the host's memory");
        expect(c.counters().device_memory_bytes > 0, "nothing was copied");
      },
      options));
}

TEST_CASE("devices: what a team cannot make with so few blocks goes through the host", "[comm]") {
  if (way() != "team") return;
  const std::size_t most = GENERATE(1, 2, 64);
  auto options = options_for("");
  options.device.blocks = most;
  options.device.staging_bytes = (1 << 20) + 1024 * most;  // no test has used this size
  // Each rank needs at least one block on its GPU.
  const bool fits = most >= (gpus() == 1 ? 2U : 1U);
  std::vector<std::string> errors;
  const std::string said = logged([&] {
    errors = run_on_devices(
        2,
        [&](Communicator& c) {
          const OwnedStream stream;
          for (const std::size_t count : {100, 200, 300, 200}) {
            const Device sums(Values(count, 1));
            c.all_reduce(Block(sums.data(), count, kType), ReduceOp::sum, in(stream));
            stream.wait();
            expect(sums.values() == Values(count, 2), "the sums");
          }
          expect((c.counters().device_memory_bytes == 0) == fits, "it went the other way");
        },
        options);
  });
  check_all_well(errors);
  CHECK(count_of("all_reduce of 100 int32, sum goes through the host", said) == (fits ? 0 : 1));
  // No rank is warned about the others.
  CHECK(count_of("goes through the host", said) == (fits ? 0 : 1));
}

TEST_CASE("devices: a team's call returns when all ranks have made it", "[comm]") {
  if (way() != "team") return;
  std::atomic<bool> has_called{false};
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device sums(Values(100, 1));
    if (c.rank() == 1) {
      be_late(150ms);
      has_called = true;
    }
    const auto work = c.all_reduce_async(Block(sums.data(), 100, kType), ReduceOp::sum, in(stream));
    expect(has_called, "it returned before");
    Work(work).wait();
    expect(sums.values() == Values(100, 2), "the sums");
  }));
}

TEST_CASE("devices: a team copies nothing from the host to the host, which would wait", "[comm]") {
  if (way() != "team") return;
  auto options = options_for("");
  options.device.copies = DeviceCopies::always;
  check_all_well(run_on_devices(
      2,
      [](Communicator& c) {
        const OwnedStream stream;
        const Values mine = ramp(100, 100 * c.rank());
        Values all(200);
        std::atomic<bool> may_go{false};
        hold_until(may_go, stream);
        const auto begin = std::chrono::steady_clock::now();
        auto work = c.all_gather_async(ConstBlock(mine.data(), 100, kType),
                                       Block(all.data(), c.size() * 100, kType), in(stream));
        const auto took = std::chrono::steady_clock::now() - begin;
        may_go = true;
        work.wait();
        stream.wait();
        expect(took < 4s, "it waited for its stream");
        expect(all == ramp(200, 0), "what was gathered");
      },
      options));
}

TEST_CASE("devices: calls that go different ways and differ name each other", "[comm]") {
  const bool is_message = GENERATE(false, true);
  const auto errors = run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device sums(Values(100, 1));
    if (c.rank() == 0) {
      auto options = in(stream);
      options.label = "sums";
      c.all_reduce(Block(sums.data(), 100, kType), ReduceOp::sum, options);
    } else {
      // A kind that only the host makes.
      CallOptions options;
      options.label = "scaled";
      options.stream = stream;
      c.all_reduce(Block(sums.data(), 100, kType),
                   is_message ? Reduction::premultiplied_sum(2)
                              : Reduction::custom([](const void*, void*, std::size_t, DataType) {},
                                                  {.name = "none"}),
                   options);
    }
    stream.wait();
    wait_for_error(c);
    throw std::runtime_error(c.error());
  });
  for (const auto& error : errors) {
    CHECK_THAT(error, Catch::Contains("ranks call different things"));
    CHECK_THAT(error, Catch::Contains("sums") && Catch::Contains("scaled"));
  }
}

TEST_CASE("devices: calls of both ways keep their order", "[comm]") {
  check_all_well(run_on_devices(3, [](Communicator& c) {
    const OwnedStream one, two;
    const Device sums(Values(1000, 1));
    std::vector<Device> others;
    std::int32_t value = 1;
    for (int i = 0; i < 20; i++) {
      c.all_reduce(Block(sums.data(), 1000, kType), ReduceOp::sum, in(one));
      c.all_reduce(Block(sums.data(), 1000, kType), Reduction::premultiplied_sum(2), in(one));
      c.broadcast(Block(sums.data(), 1000, kType), i % 3, in(one));
      value = static_cast<std::int32_t>(static_cast<std::uint32_t>(value) * 18U);
      others.emplace_back(Values(10, i));
      const Device& other = others.back();
      c.all_reduce(Block(other.data(), 10, kType), ReduceOp::max, in(two));
      if (i % 5 != 0) continue;
      two.wait();
      expect(other.values() == Values(10, i), "in another stream");
    }
    one.wait();
    two.wait();
    expect(sums.values() == Values(1000, value), "in one stream");
  }));
}

TEST_CASE("devices: communicators come and go beside one with calls under way", "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    const Device sums(Values(50, 1));
    std::int32_t value = 1;
    for (int i = 0; i < 20; i++) {
      auto copy = c.duplicate();
      copy.all_reduce(Block(sums.data(), 50, kType), ReduceOp::sum, in(stream));
      c.all_reduce(Block(sums.data(), 50, kType), ReduceOp::sum, in(stream));
      value = static_cast<std::int32_t>(static_cast<std::uint32_t>(value) * 4U);
      stream.wait();
      expect(sums.values() == Values(50, value), fmt::format("round {}", i));
    }
  }));
}

TEST_CASE("devices: a call may wait for its stream, also where others have made it later",
          "[comm]") {
  auto options = options_for("");
  options.timeout = 500ms;
  std::atomic<bool> may_go{false};
  check_all_well(run_on_devices(
      2,
      [&](Communicator& c) {
        const OwnedStream stream;
        const Device sums(Values(10, 1));
        hold_until(may_go, stream);
        // It exceeds the time after which a waiting call is checked.
        if (c.rank() == 1) be_late(200ms);
        auto work = c.all_reduce_async(Block(sums.data(), 10, kType), ReduceOp::sum, in(stream));
        if (c.rank() == 1) {
          be_late(1s);
          may_go = true;
        }
        work.wait();
        expect(sums.values() == Values(10, 2), "the sums");
      },
      options));
}

TEST_CASE("devices: memory of another GPU is refused", "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const Device other(Values(10, 1)), own(Values(20, 1));
    cuda_on_host_moves(other.data(), 40, true);
    const OwnedStream stream;
    const auto check = [&](const std::string& error) {
      expect(error.find(fmt::format("memory of GPU {}: expected memory of GPU {}", gpus(),
                                    gpu_of(c.rank()))) != error.npos,
             error);
    };
    check(message_of([&] {
      c.all_reduce(ConstBlock(other.data(), 10, kType), Block(own.data(), 10, kType), ReduceOp::sum,
                   in(stream));
    }));
    check(message_of([&] {
      c.all_gather(ConstBlock(own.data(), 5, kType), Block(other.data(), c.size() * 5, kType));
    }));
    check(message_of(
        [&] { c.send(ConstBlock(other.data(), 10, kType), 1 - c.rank(), 0, in(stream)); }));
    cuda_on_host_moves(other.data(), 40, false);
    c.all_reduce(Block(own.data(), 10, kType));
    expect(own.values()[9] == 2 && own.values()[10] == 1, "a call behind those");
  }));
}

TEST_CASE("devices: a duplicate that not all ranks call is broken, and goes no other way",
          "[comm]") {
  if (asked_way() != "steps") return;  // in other ways no rank waits for another
  std::atomic<bool> is_over{false};
  const auto said = logged([&] {
    check_all_well(run_on_devices(2, [&](Communicator& c) {
      if (c.rank() == 1) {
        return expect(eventually([&] { return is_over.load(); }), "rank 0 waits");
      }
      const auto copy = c.duplicate({.timeout = 200ms});
      is_over = true;
      expect(copy.error().find("it waits for rank 1") != std::string::npos, copy.error());
      expect(c.error().empty(), c.error());
    }));
  });
  CHECK(said.find("through the host") == std::string::npos);
}

TEST_CASE("devices: where a rank has no memory for its part of a way no rank has that", "[comm]") {
  auto options = options_for("");
  options.device.staging_bytes =
      12'345;  // no test has used this size before and left memory for others
  const auto errors = run_on_devices(
      2,
      [](Communicator& c) {
        const OwnedStream stream;
        const Device sums(Values(10, 1));
        const auto error = message_of([&] {
          cuda_on_host_is_full(c.rank() == 0);
          auto copy = c.duplicate();
          cuda_on_host_is_full(false);
          copy.all_reduce_async(Block(sums.data(), 10, kType), ReduceOp::sum, in(stream)).wait();
        });
        cuda_on_host_is_full(false);
        if (error != "no error") throw std::runtime_error(error);
        expect(sums.values() == Values(10, 2), "the sums");
      },
      options);
  // Only ranks that make their calls together can agree on another way.
  if (way() != "team") return check_all_well(errors);
  for (const auto& error : errors)
    CHECK_THAT(error, Catch::Contains("rank 0") && Catch::Contains("bytes on a GPU"));
}
