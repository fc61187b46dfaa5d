// SPDX-License-Identifier: Apache-2.0
// Calls in CUDA's streams, on a device that the host plays: they leave the same results as calls on
// the host, in stream order.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <thread>

#include "any_device.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

/// Makes the call on device or host buffers in each way, and compares with the call on the host.
class Trial {
 public:
  Trial(Communicator& communicator, Communicator& host, Collective collective, unsigned seed)
      : communicator_(communicator),
        host_(host),
        collective_(std::move(collective)),
        chance_(seed + static_cast<unsigned>(communicator.rank())),
        input_(ramp(collective_.elems(true, communicator.size()), 1000 * communicator.rank())),
        output_(collective_.elems(false, communicator.size()), -7) {}

  void run(bool may_use_device) {
    auto expected = output_;
    collective_.make(host_, input_.data(), expected.data(), {}, false);
    const bool device_in = may_use_device && flip();
    const bool device_out = may_use_device && flip();
    const Device input(input_), output(output_);
    auto host_out = output_;
    const void* const from = device_in ? input.data() : input_.data();
    void* const to = device_out ? output.data() : host_out.data();
    std::optional<cudaStream_t> stream;
    const OwnedStream own;
    // Ranks of one process that shared a stream would wait for one another in it.
    const bool may_share = communicator_.size() == 1;
    if (may_use_device && flip())
      stream = may_share && flip() ? nullptr : static_cast<cudaStream_t>(own);
    CallOptions options;
    options.stream = stream;
    if (auto work = collective_.make(communicator_, from, to, options, flip()); work && flip()) {
      work->wait();
    } else if (work && !stream) {
      work->wait();
    } else if (stream) {
      check_cuda(cudaStreamSynchronize(*stream), "waiting for a stream");
    }
    expect((device_out ? output.values() : host_out) == expected, "another result than the host's");
    expect(
        (device_in ? input.values() : input_) == ramp(input_.size(), 1000 * communicator_.rank()),
        "the input was written");
  }

 private:
  bool flip() { return chance_() % 2 == 0; }

  Communicator& communicator_;
  Communicator& host_;
  const Collective collective_;
  std::mt19937 chance_;
  Values input_;
  const Values output_;
};

/// A random collective, the same on all ranks.
Collective random_collective(std::mt19937& chance, int size) {
  const std::size_t counts[] = {0, 1, 3, 100, 4097};
  Collective made{kKinds[chance() % std::size(kKinds)], counts[chance() % std::size(counts)],
                  static_cast<int>(chance() % static_cast<unsigned>(size))};
  if (chance() % 4 == 0) made.op = Reduction::premultiplied_sum(3);
  if (chance() % 4 == 0)
    made.op = Reduction::custom(
        [](const void* from, void* into, std::size_t count, DataType) {
          const auto* const a = static_cast<const std::int32_t*>(from);
          auto* const b = static_cast<std::int32_t*>(into);
          for (std::size_t k = 0; k < count; k++) b[k] = std::max(a[k], b[k]);
        },
        {.name = "larger"});
  return made;
}

}  // namespace

TEST_CASE("devices: every collective leaves what it leaves on the host", "[comm][property]") {
  const unsigned seed = std::random_device{}();
  const auto transport = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const int size = GENERATE(1, 2, 3, 5);
  // One rank may have host memory only, beside ranks with a device.
  const bool is_mixed = GENERATE(false, true);
  if (is_mixed && size < 3) return;
  CAPTURE(seed, transport, size, is_mixed);
  const int trials = reduced() ? 8 : 40;
  const auto has_device = [&](int rank) { return !is_mixed || rank + 1 < size; };
  const auto body = [&](Communicator& communicator, Communicator& host) {
    std::mt19937 same(seed);
    for (int i = 0; i < trials; i++) {
      const auto collective = random_collective(same, communicator.size());
      Trial(communicator, host, collective, seed + static_cast<unsigned>(i))
          .run(has_device(communicator.rank()));
    }
  };
  check_all_well(run_on_devices_and_host(size, body, options_for(transport), has_device));
}

TEST_CASE("devices: a call like one on the host's memory leaves a GPU's memory to streams",
          "[comm]") {
  // The host cannot touch it then. A device that the host plays could not either.
  cuda_on_host_hides_memory(way() == "host");
  check_all_well(run_on_devices(2, [](Communicator& c) {
    // No other case has buffers of that size, so these are new.
    constexpr std::size_t kCount = 3'000'000;
    const auto mine = ramp(kCount, c.rank());
    Values sum = ramp(kCount, 1), on_host(kCount);
    for (std::size_t i = 0; const auto value : ramp(kCount, 0)) sum[i++] += value;
    const Device input(mine), output{Values(kCount)};
    const auto add_up = [&](const std::int32_t* from, std::int32_t* to) {
      c.all_reduce(ConstBlock(from, kCount, kType), Block(to, kCount, kType));
    };
    const auto repeat_on_host = [&] {
      for (int call = 0; call < 3; call++) add_up(mine.data(), on_host.data());
      CHECK(on_host == sum);
    };
    repeat_on_host();
    add_up(input.data(), output.data());
    CHECK(output.values() == sum);
    repeat_on_host();
    add_up(mine.data(), output.data());
    CHECK(output.values() == sum);
    repeat_on_host();
    add_up(input.data(), on_host.data());
    CHECK(on_host == sum);
  }));
  cuda_on_host_hides_memory(false);
}

TEST_CASE("devices: in place, and of blocks and buffers that lie here and there", "[comm]") {
  check_all_well(run_on_devices(3, [](Communicator& c) {
    const OwnedStream stream;
    const int me = c.rank();
    // all_reduce, all_gather and reduce_scatter in place
    const Device sums(ramp(100, me));
    c.all_reduce(Block(sums.data(), 100, kType), ReduceOp::sum, in(stream));
    Values gathered(30, -1);
    std::ranges::copy(ramp(10, 100 * me), gathered.begin() + 10 * me);
    const Device all(gathered);
    c.all_gather(ConstBlock(all.data() + 10 * me, 10, kType),
                 Block(all.data(), c.size() * 10, kType), in(stream));
    const Device scattered(ramp(30, me));
    c.reduce_scatter(ConstBlock(scattered.data(), c.size() * 10, kType),
                     Block(scattered.data() + 10 * me, 10, kType), ReduceOp::sum, in(stream));
    // blocks on the device and on the host
    const Values mine = ramp(static_cast<std::size_t>(me + 1), 10 * me);
    const Device mine_there(mine), first(Values(1)), last(Values(3));
    Values second(2);
    const Block blocks[] = {
        {first.data(), 1, kType}, {second.data(), 2, kType}, {last.data(), 3, kType}};
    c.all_gather_v({mine_there.data(), mine.size(), kType}, blocks, in(stream));
    // buffers on the device and on the host
    const Device a(ramp(5, me));
    Values b = ramp(7, me);
    const BufferPair pairs[] = {Block(a.data(), 5, kType), Block(b.data(), 7, kType)};
    c.all_reduce(pairs, ReduceOp::max, in(stream));
    stream.wait();
    Values threefold = ramp(100, 0);
    for (auto& value : threefold) value = 3 * value + 3;
    expect(sums.values() == threefold, "all_reduce in place");
    for (int rank = 0; rank < 3; rank++)
      std::ranges::copy(ramp(10, 100 * rank), gathered.begin() + 10 * rank);
    expect(all.values() == gathered, "all_gather in place");
    const auto share = scattered.values();
    expect(std::equal(share.begin() + 10 * me, share.begin() + 10 * (me + 1),
                      threefold.begin() + 10 * me),
           "reduce_scatter in place");
    expect(first.values() == ramp(1, 0) && second == ramp(2, 10) && last.values() == ramp(3, 20),
           "blocks here and there");
    expect(a.values() == ramp(5, 2) && b == ramp(7, 2), "buffers here and there");
  }));
}

TEST_CASE("devices: an all_to_all whose buffers overlap", "[comm]") {
  check_all_well(run_on_devices(3, [](Communicator& c) {
    const OwnedStream stream;
    const int me = c.rank();
    // Small blocks, and blocks larger than one part.
    for (const std::size_t block : {std::size_t{5}, std::size_t{300'000}}) {
      const std::size_t all = 3 * block;
      for (const std::size_t apart : {std::size_t{0}, std::size_t{1}, block}) {
        const bool is_graph = block == 5;
        const auto which = fmt::format(" of blocks of {}, {} apart", block, apart);
        Values input = ramp(all + apart, 1000 * me), wanted;
        for (int from = 0; from < 3; from++) {
          const auto theirs = ramp(all, 1000 * from);
          const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(block) * me;
          wanted.insert(wanted.end(), begin, begin + static_cast<std::ptrdiff_t>(block));
        }
        const Device there(input);
        const auto run = [&](std::int32_t* data) {
          const auto call = [&] {
            c.all_to_all(ConstBlock(data, all, kType), Block(data + apart, all, kType), in(stream));
          };
          std::optional<Graph> graph;
          if (is_graph)
            graph.emplace(stream, call).launch(stream);
          else
            call();
          stream.wait();
        };
        run(there.data());
        run(input.data());
        const auto got = there.values();
        expect(std::equal(wanted.begin(), wanted.end(),
                          got.begin() + static_cast<std::ptrdiff_t>(apart)),
               "an all_to_all on the device" + which);
        expect(std::equal(wanted.begin(), wanted.end(),
                          input.begin() + static_cast<std::ptrdiff_t>(apart)),
               "an all_to_all on the host" + which);
      }
    }
  }));
}

TEST_CASE("devices: a call waits neither for the device nor for other ranks", "[comm]") {
  if (way() == "team") return;  // team calls return only when all ranks have made them
  std::atomic<bool> may_go{false};
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device input(Values(1000)), output(Values(1000));
    if (c.rank() == 1) {
      while (!may_go) std::this_thread::yield();
    }
    // The call reads what the stream wrote before it; work behind it gets its results.
    check_cuda(cudaMemsetAsync(input.data(), 1, 4000, stream), "memset");
    c.all_reduce(ConstBlock(input.data(), 1000, kType), Block(output.data(), 1000, kType),
                 ReduceOp::sum, in(stream));
    const Device copy(Values(1000));
    check_cuda(cudaMemcpyAsync(copy.data(), output.data(), 4000, cudaMemcpyDefault, stream),
               "copy");
    check_cuda(cudaMemsetAsync(output.data(), 0, 4000, stream), "memset");
    const auto work =
        c.all_reduce_async(Block(output.data(), 1000, kType), ReduceOp::sum, in(stream));
    may_go = true;
    stream.wait();
    expect(copy.values() == Values(1000, 0x02020202), "what was put in before was not there");
    expect(output.values() == Values(1000), "what came behind was overtaken");
    Work(work).wait();
  }));
}

TEST_CASE("devices: more calls than there is room for wait in their streams", "[comm]") {
  auto options = options_for("");
  options.device.staging_bytes = 64 << 10;
  check_all_well(run_on_devices(
      3,
      [](Communicator& c) {
        constexpr int kStreams = 3, kCalls = 120;
        const OwnedStream streams[kStreams];
        std::vector<Device> buffers;
        std::vector<Values> expected;
        // Now and then one exceeds all the room there is.
        for (int i = 0; i < kCalls; i++) {
          const std::size_t count = i % 40 == 39 ? 40'000 : static_cast<std::size_t>(i * 53 % 5000);
          buffers.emplace_back(ramp(count, i + c.rank()));
          expected.push_back(ramp(count, i));
          for (auto& value : expected.back()) value = 3 * value + 3;
        }
        for (int i = 0; i < kCalls; i++) {
          auto& buffer = buffers[static_cast<std::size_t>(i)];
          c.all_reduce(Block(buffer.data(), expected[static_cast<std::size_t>(i)].size(), kType),
                       ReduceOp::sum, in(streams[i % kStreams]));
        }
        for (const auto& stream : streams) stream.wait();
        for (std::size_t i = 0; i < kCalls; i++)
          expect(buffers[i].values() == expected[i], fmt::format("call {} is wrong", i));
        // Larger calls are made in parts.
        const auto held = c.counters().device_memory_bytes;
        if (way() == "host") expect(held == 48 << 10, fmt::format("{} bytes of it", held));
      },
      options));
}

TEST_CASE("devices: one thread for several ranks", "[comm]") {
  use_gpu_of(0);
  const std::vector<int> devices = {gpu_of(0), gpu_of(1), gpu_of(2)};
  auto ranks = Communicator::create_all(3, on_device(), devices);
  std::deque<OwnedStream> streams;
  std::vector<Device> there, by_default;
  for (int rank = 0; rank < 3; rank++) {
    use_gpu_of(rank);
    streams.emplace_back();
    there.emplace_back(ramp(50, rank));
    by_default.emplace_back(ramp(50, rank));
  }
  {
    CallGroup group;
    for (std::size_t i = 0; i < 3; i++) {
      ranks[i].all_reduce(Block(there[i].data(), 50, kType), ReduceOp::sum, in(streams[i]));
      ranks[i].all_reduce(Block(by_default[i].data(), 50, kType));
    }
    group.end();
  }
  for (std::size_t i = 0; i < 3; i++) {
    // Calls without a stream are over when the group ends.
    CHECK(by_default[i].values() == by_default[0].values());
    CHECK(by_default[i].values()[49] == 3 * 49 + 3);
    streams[i].wait();
    CHECK(there[i].values() == by_default[0].values());
  }
}

TEST_CASE("devices: a communicator that is made from one has the device, too", "[comm]") {
  check_all_well(run_on_devices(4, [](Communicator& c) {
    auto half = c.split(c.rank() % 2, 0);
    auto copy = c.duplicate();
    const OwnedStream stream;
    const Device sums(Values(9, 1));
    half->all_reduce(Block(sums.data(), 9, kType), ReduceOp::sum, in(stream));
    copy.all_reduce(Block(sums.data(), 9, kType), ReduceOp::sum, in(stream));
    stream.wait();
    expect(sums.values() == Values(9, 8), "a split's or a duplicate's sums");
  }));
}

TEST_CASE("devices: what cannot be right is refused", "[comm]") {
  auto options = options_for("");
  options.device.ordinal = -2;
  const auto make = [&] { Communicator::create(make_inproc_store(), 0, 1, options); };
  CHECK_THAT(message_of(make), Catch::Contains("device -2") && Catch::Contains("kHost"));
  options.device.ordinal = 7;
  CHECK_THAT(message_of(make), Catch::StartsWith("unsupported: DeviceOptions::ordinal is 7: ") &&
                                   Catch::Contains("GPU 7"));
  options.device.ordinal = 0;
  options.device.staging_bytes = 0;
  CHECK_THAT(message_of(make), Catch::Contains("device.staging_bytes is 0"));
  options.device.staging_bytes = 1;
  options.device.workspace_bytes = 0;
  CHECK_THAT(message_of(make), Catch::Contains("device.workspace_bytes is 0"));
  options.device.workspace_bytes = 1;
  options.device.copies = static_cast<DeviceCopies>(3);
  CHECK_THAT(message_of(make), Catch::StartsWith("invalid_argument: device.copies is 3"));
  options = options_for("");
  options.device.ordinal = 0;
  auto alone = Communicator::create(make_inproc_store(), 0, 1, options);
  const OwnedStream stream;
  Values here(4);
  CHECK_THAT(message_of([&] { alone.probe(kAnyRank, kAnyTag, in(stream)); }),
             Catch::StartsWith("invalid_argument: probe"));
  CHECK_THAT(message_of([&] { alone.broadcast_bytes("x", 0, in(stream)); }),
             Catch::StartsWith("invalid_argument: broadcast_bytes"));
  CHECK_THAT(message_of([&] {
               alone.all_reduce(ConstBlock(nullptr, 4, kType), Block(here.data(), 4, kType),
                                ReduceOp::sum, in(stream));
             }),
             Catch::Contains("null"));
  // None of these errors breaks anything.
  alone.all_reduce(Block(here.data(), 4, kType), ReduceOp::sum, in(stream));
  stream.wait();
  CHECK(alone.error().empty());
}

TEST_CASE("devices: two threads in blocking collectives are told", "[comm]") {
  std::atomic<int> refused{0};
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const Device sums(Values(10, 1));
    const auto call = [&] { c.all_reduce(Block(sums.data(), 10, kType), ReduceOp::sum); };
    if (c.rank() == 1) {
      expect(eventually([&] { return refused > 0; }), "no thread is refused");
      return call();
    }
    const auto errors = run_threads(2, [&](int) {
      const auto error = message_of(call);
      const bool is_well = error == "no error";
      refused += !is_well;
      expect(is_well || (error.starts_with("invalid_argument: two threads") &&
                         error.find("all_reduce of 10 int32") != std::string::npos),
             error);
    });
    for (const auto& error : errors) expect(error.empty(), error);
    expect(refused == 1, "both threads were refused, or none");
    expect(sums.values() == Values(10, 2), "the sums");
  }));
}

TEST_CASE("devices: what a communicator had of the host's memory serves the next", "[comm]") {
  if (way() != "host") return;
  auto options = on_device();
  options.device.staging_bytes = 64 << 10;
  const auto make = [&] { return Communicator::create(make_inproc_store(), 0, 1, options); };
  const Device large(Values(40'000, 1));
  constexpr std::uint64_t kRing = 48 << 10, kApart = 256 << 10;
  {
    auto there_meanwhile = make();
    for (int i = 0; i < 3; i++) {
      auto each = make();
      CHECK(each.counters().device_memory_bytes == kRing + (i > 0 ? kApart : 0));
      // A call that is not made in parts.
      each.all_reduce(Block(large.data(), 40'000, kType), Reduction::premultiplied_sum(1));
      CHECK(each.counters().device_memory_bytes == kRing + kApart);
    }
    CHECK(there_meanwhile.counters().device_memory_bytes == kRing);
  }
  CHECK(make().counters().device_memory_bytes == kRing);
}

TEST_CASE("devices: a call behind the default stream is refused while that is in a capture's way",
          "[comm]") {
  auto options = on_device();
  auto alone = Communicator::create(make_inproc_store(), 0, 1, options);
  const OwnedStream blocking(cudaStreamDefault);
  const Device sums(Values(10, 1));
  const auto call = [&] { alone.all_reduce(Block(sums.data(), 10, kType), ReduceOp::sum); };
  {
    const Graph graph(blocking, [&] {
      CHECK_THAT(message_of(call),
                 Catch::StartsWith("invalid_argument") && Catch::Contains("cudaStreamNonBlocking"));
    });
  }
  call();
  CHECK(sums.values() == Values(10, 1));
}

TEST_CASE("devices: threads of one rank call at once, in streams of their own", "[comm]") {
  auto options = options_for("");
  options.device.staging_bytes = 8 << 10;
  check_all_well(run_on_devices(
      1,
      [](Communicator& c) {
        const auto errors = run_threads(4, [&](int thread) {
          const OwnedStream stream;
          for (int i = 0; i < 200; i++) {
            const Device buffer(ramp(700, thread + i)), sums(Values(700));
            c.all_reduce(ConstBlock(buffer.data(), 700, kType), Block(sums.data(), 700, kType),
                         ReduceOp::sum, in(stream));
            stream.wait();
            expect(sums.values() == ramp(700, thread + i), "wrong sums");
          }
        });
        for (const auto& error : errors) expect(error.empty(), error);
      },
      options));
}
