// SPDX-License-Identifier: Apache-2.0
// Calls in CUDA's streams, on a device that the host plays: what they leave is what the same calls
// leave on the host, in the order of streams, and whatever goes wrong ends them.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "schedule/problem.hpp"
#include "support/children.hpp"
#include "support/cuda_on_host.hpp"
#include "support/device_buffer.hpp"
#include "support/effort.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::check_cuda;
using testing::expect;
using testing::Graph;
using testing::message_of;
using testing::options_for;
using testing::OwnedStream;
using testing::reduced;

namespace {

using Values = std::vector<std::int32_t>;
using Device = testing::DeviceBuffer<std::int32_t>;
constexpr DataType kType = DataType::int32;

/// Ranks as threads; those that `has_device` says have the device.
std::vector<std::string> run_on_devices(
    int size, const std::function<void(Communicator&)>& body,
    CommunicatorOptions options = options_for(""),
    const std::function<bool(int)>& has_device = [](int) { return true; }) {
  const auto store = make_inproc_store();
  return testing::run_threads(size, [&](int rank) {
    auto mine = options;
    if (has_device(rank)) mine.device = 0;
    auto communicator = Communicator::create(store, rank, size, mine);
    body(communicator);
  });
}

void check_all_well(const std::vector<std::string>& errors) {
  CHECK(errors == std::vector<std::string>(errors.size()));
}

Values ramp(std::size_t count, int from) {
  Values values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

CallOptions in(cudaStream_t stream) {
  CallOptions options;
  options.stream = stream;
  return options;
}

struct Collective {
  Kind kind;
  std::size_t count;
  int root;
  Reduction op = ReduceOp::sum;

  std::size_t elems(bool input, int size) const {
    const bool many = input ? kind == Kind::reduce_scatter || kind == Kind::scatter
                            : kind == Kind::all_gather || kind == Kind::gather;
    return many || kind == Kind::all_to_all ? count * static_cast<std::size_t>(size) : count;
  }
  /// `async`: by the form that returns a Work.
  std::optional<Work> make(Communicator& communicator, const void* input, void* output,
                           const CallOptions& options, bool async) const;
};

std::optional<Work> Collective::make(Communicator& c, const void* input, void* output,
                                     const CallOptions& options, bool async) const {
  switch (kind) {
    case Kind::all_reduce:
      if (async) return c.all_reduce_async(input, output, count, kType, op, options);
      c.all_reduce(input, output, count, kType, op, options);
      break;
    case Kind::reduce:
      if (async) return c.reduce_async(input, output, count, kType, op, root, options);
      c.reduce(input, output, count, kType, op, root, options);
      break;
    case Kind::broadcast:
      if (async) return c.broadcast_async(input, output, count, kType, root, options);
      c.broadcast(input, output, count, kType, root, options);
      break;
    case Kind::all_gather:
      if (async) return c.all_gather_async(input, output, count, kType, options);
      c.all_gather(input, output, count, kType, options);
      break;
    case Kind::reduce_scatter:
      if (async) return c.reduce_scatter_async(input, output, count, kType, op, options);
      c.reduce_scatter(input, output, count, kType, op, options);
      break;
    case Kind::all_to_all:
      if (async) return c.all_to_all_async(input, output, count, kType, options);
      c.all_to_all(input, output, count, kType, options);
      break;
    case Kind::gather:
      if (async) return c.gather_async(input, output, count, kType, root, options);
      c.gather(input, output, count, kType, root, options);
      break;
    case Kind::scatter:
      if (async) return c.scatter_async(input, output, count, kType, root, options);
      c.scatter(input, output, count, kType, root, options);
      break;
    case Kind::barrier:
      if (async) return c.barrier_async(options);
      c.barrier(options);
      break;
  }
  return std::nullopt;
}

constexpr Kind kKinds[] = {Kind::all_reduce,     Kind::reduce,     Kind::broadcast,
                           Kind::all_gather,     Kind::all_to_all, Kind::gather,
                           Kind::reduce_scatter, Kind::scatter,    Kind::barrier};

/// The call on buffers here and there, each way that there is, against the same call on the host.
class Trial {
 public:
  Trial(Communicator& communicator, Collective collective, unsigned seed)
      : communicator_(communicator),
        collective_(std::move(collective)),
        chance_(seed + static_cast<unsigned>(communicator.rank())),
        input_(ramp(collective_.elems(true, communicator.size()), 1000 * communicator.rank())),
        output_(collective_.elems(false, communicator.size()), -7) {}

  void run(bool may_use_device) {
    auto expected = output_;
    collective_.make(communicator_, input_.data(), expected.data(), {}, false);
    const bool device_in = may_use_device && flip();
    const bool device_out = may_use_device && flip();
    const Device input(input_), output(output_);
    auto host_out = output_;
    const void* const from = device_in ? input.data() : input_.data();
    void* const to = device_out ? output.data() : host_out.data();
    std::optional<cudaStream_t> stream;
    const OwnedStream own;
    // Ranks of one process that share a stream would wait for one another in it.
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
  const Collective collective_;
  std::mt19937 chance_;
  Values input_;
  const Values output_;
};

/// A random one, the same on all ranks.
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
  CAPTURE(seed, transport, size);
  const int trials = reduced() ? 8 : 40;
  const auto body = [&](Communicator& communicator) {
    std::mt19937 same(seed);
    for (int i = 0; i < trials; i++) {
      const auto collective = random_collective(same, communicator.size());
      // The last rank of three or more has host memory alone.
      const bool may_use_device = communicator.size() < 3 || communicator.rank() + 1 < size;
      Trial(communicator, collective, seed + static_cast<unsigned>(i)).run(may_use_device);
    }
  };
  check_all_well(run_on_devices(size, body, options_for(transport),
                                [&](int rank) { return size < 3 || rank + 1 < size; }));
}

TEST_CASE("devices: in place, and of blocks and buffers that lie here and there", "[comm]") {
  check_all_well(run_on_devices(3, [](Communicator& c) {
    const OwnedStream stream;
    const int me = c.rank();
    // all_reduce, all_gather and reduce_scatter in place
    const Device sums(ramp(100, me));
    c.all_reduce(sums.data(), sums.data(), 100, kType, ReduceOp::sum, in(stream));
    Values gathered(30, -1);
    std::ranges::copy(ramp(10, 100 * me), gathered.begin() + 10 * me);
    const Device all(gathered);
    c.all_gather(all.data() + 10 * me, all.data(), 10, kType, in(stream));
    const Device scattered(ramp(30, me));
    c.reduce_scatter(scattered.data(), scattered.data() + 10 * me, 10, kType, ReduceOp::sum,
                     in(stream));
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
    const BufferPair pairs[] = {{a.data(), a.data(), 5, kType}, {b.data(), b.data(), 7, kType}};
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

TEST_CASE("devices: a call waits neither for the device nor for other ranks", "[comm]") {
  std::atomic<bool> may_go{false};
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device input(Values(1000)), output(Values(1000));
    if (c.rank() == 1) {
      while (!may_go) std::this_thread::yield();
    }
    // What is put into the stream before the call it reads, what comes behind it has its results.
    check_cuda(cudaMemsetAsync(input.data(), 1, 4000, stream), "memset");
    c.all_reduce(input.data(), output.data(), 1000, kType, ReduceOp::sum, in(stream));
    const Device copy(Values(1000));
    check_cuda(cudaMemcpyAsync(copy.data(), output.data(), 4000, cudaMemcpyDefault, stream),
               "copy");
    check_cuda(cudaMemsetAsync(output.data(), 0, 4000, stream), "memset");
    const auto work =
        c.all_reduce_async(output.data(), output.data(), 1000, kType, ReduceOp::sum, in(stream));
    may_go = true;
    stream.wait();
    expect(copy.values() == Values(1000, 0x02020202), "what was put in before was not there");
    expect(output.values() == Values(1000), "what came behind was overtaken");
    Work(work).wait();
  }));
}

TEST_CASE("devices: more calls than there is room for wait in their streams", "[comm]") {
  auto options = options_for("");
  options.device_memory = 64 << 10;
  check_all_well(run_on_devices(
      3,
      [](Communicator& c) {
        constexpr int kStreams = 3, kCalls = 120;
        const OwnedStream streams[kStreams];
        std::vector<Device> buffers;
        std::vector<Values> expected;
        // One larger than all the room that there is, now and then.
        for (int i = 0; i < kCalls; i++) {
          const std::size_t count = i % 40 == 39 ? 40'000 : static_cast<std::size_t>(i * 53 % 5000);
          buffers.emplace_back(ramp(count, i + c.rank()));
          expected.push_back(ramp(count, i));
          for (auto& value : expected.back()) value = 3 * value + 3;
        }
        for (int i = 0; i < kCalls; i++) {
          auto& buffer = buffers[static_cast<std::size_t>(i)];
          c.all_reduce(buffer.data(), buffer.data(), expected[static_cast<std::size_t>(i)].size(),
                       kType, ReduceOp::sum, in(streams[i % kStreams]));
        }
        for (const auto& stream : streams) stream.wait();
        for (std::size_t i = 0; i < kCalls; i++)
          expect(buffers[i].values() == expected[i], fmt::format("call {} is wrong", i));
        // The ring, and what three calls of 160,000 bytes each have beside it.
        const auto held = c.counters().device_memory_bytes;
        expect(held >= (64 << 10) + (256 << 10) && held <= (64 << 10) + 3 * (256 << 10),
               fmt::format("{} bytes of pinned memory", held));
      },
      options));
}

TEST_CASE("devices: messages", "[comm]") {
  const auto transport = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  check_all_well(run_on_devices(
      2,
      [](Communicator& c) {
        const int other = 1 - c.rank();
        for (const std::size_t count : {0UL, 1UL, 1000UL, 100'000UL}) {
          const OwnedStream stream;
          const Device out(ramp(count, c.rank())), got(Values(count + 3, -1));
          auto work = c.send_recv_async(out.data(), count, other, got.data(), count + 3, other,
                                        kType, 5, in(stream));
          work.wait();
          auto expected = ramp(count, other);
          expected.resize(count + 3, -1);
          expect(got.values() == expected, "send_recv, or what lies behind what came");
          expect(work.received(0).count == count, "another count than was sent");
          // From a device to the host, in the caller's time.
          Values here(count);
          if (c.rank() == 0) {
            c.send(out.data(), count, kType, 1);
            c.recv(here.data(), count, kType, 1);
          } else {
            c.recv(here.data(), count, kType, 0);
            c.send(out.data(), count, kType, 0);
          }
          expect(here == ramp(count, other), "send and recv without a stream");
          const MessageRequest requests[] = {MessageRequest::recv(got.data(), count, kType, other),
                                             MessageRequest::send(out.data(), count, kType, other)};
          c.batch(requests, in(stream));
          stream.wait();
          expect(got.values() == expected, "batch");
        }
      },
      options_for(transport)));
}

TEST_CASE("devices: a graph runs as often as one likes, among other calls", "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(Values(500, 1)), got(Values(10));
    const int other = 1 - c.rank();
    // The very first call of the communicator in a stream.
    c.barrier();
    const Graph graph(stream, [&] {
      const auto work =
          c.all_reduce_async(buffer.data(), buffer.data(), 500, kType, ReduceOp::sum, in(stream));
      expect(Work(work).test(), "a captured call's Work is not over");
      c.send_recv(buffer.data(), 10, other, got.data(), 10, other, kType, 0, in(stream));
    });
    std::int32_t value = 1;
    for (int i = 0; i < 12; i++) {
      graph.launch(stream);
      value *= 2;
      if (i % 3 == 0) {
        c.all_reduce(buffer.data(), buffer.data(), 500, kType, ReduceOp::sum, in(stream));
        value *= 2;
      }
      if (i % 4 == 0) stream.wait();
    }
    stream.wait();
    expect(buffer.values() == Values(500, value), "a graph's all_reduce");
    expect(got.values() == Values(10, value), "a graph's message");
    c.close();
    // What is left of it does not stand in the stream's way.
    graph.launch(stream);
    stream.wait();
  }));
}

TEST_CASE("devices: one thread for several ranks", "[comm]") {
  auto options = options_for("");
  options.device = 0;
  auto ranks = Communicator::create_all(3, options);
  const OwnedStream streams[3];
  std::vector<Device> there, by_default;
  for (int rank = 0; rank < 3; rank++) {
    there.emplace_back(ramp(50, rank));
    by_default.emplace_back(ramp(50, rank));
  }
  {
    CallGroup group;
    for (std::size_t i = 0; i < 3; i++) {
      ranks[i].all_reduce(there[i].data(), there[i].data(), 50, kType, ReduceOp::sum,
                          in(streams[i]));
      ranks[i].all_reduce(by_default[i].data(), by_default[i].data(), 50, kType);
    }
    group.end();
  }
  for (std::size_t i = 0; i < 3; i++) {
    // What was called without a stream is over with the group.
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
    half->all_reduce(sums.data(), sums.data(), 9, kType, ReduceOp::sum, in(stream));
    copy.all_reduce(sums.data(), sums.data(), 9, kType, ReduceOp::sum, in(stream));
    stream.wait();
    expect(sums.values() == Values(9, 8), "a split's or a duplicate's sums");
  }));
}

TEST_CASE("devices: what cannot be right is refused", "[comm]") {
  auto options = options_for("");
  options.device = -2;
  const auto make = [&] { Communicator::create(make_inproc_store(), 0, 1, options); };
  CHECK_THAT(message_of(make), Catch::Contains("device -2") && Catch::Contains("kHost"));
  options.device = 7;
  CHECK_THAT(message_of(make), Catch::StartsWith("unsupported") && Catch::Contains("GPU 7"));
  options.device = 0;
  options.device_memory = 0;
  CHECK_THAT(message_of(make), Catch::Contains("device_memory of 0 bytes"));
  options = options_for("");
  options.device = 0;
  auto alone = Communicator::create(make_inproc_store(), 0, 1, options);
  const OwnedStream stream;
  Values here(4);
  CHECK_THAT(message_of([&] { alone.probe(kAnyRank, kAnyTag, in(stream)); }),
             Catch::StartsWith("invalid_argument: probe"));
  CHECK_THAT(message_of([&] { alone.broadcast_bytes("x", 0, in(stream)); }),
             Catch::StartsWith("invalid_argument: broadcast_bytes"));
  CHECK_THAT(message_of([&] {
               alone.all_reduce(nullptr, here.data(), 4, kType, ReduceOp::sum, in(stream));
             }),
             Catch::Contains("null"));
  // None of these has broken anything.
  alone.all_reduce(here.data(), here.data(), 4, kType, ReduceOp::sum, in(stream));
  stream.wait();
  CHECK(alone.error().empty());
}

TEST_CASE("devices: the end of a call's time limit lets the stream go on", "[comm]") {
  auto options = options_for("");
  options.timeout = 300ms;
  const auto errors = run_on_devices(
      2,
      [](Communicator& c) {
        const OwnedStream stream;
        const Device buffer(ramp(10, 0));
        if (c.rank() == 0) {
          auto work = c.all_reduce_async(buffer.data(), buffer.data(), 10, kType, ReduceOp::sum,
                                         in(stream));
          auto behind = c.all_reduce_async(buffer.data(), buffer.data(), 10, kType, ReduceOp::sum,
                                           in(stream));
          stream.wait();
          expect(behind.test() && !behind.error().empty(), "the call behind it has no error");
          expect(c.error().find("timed out") != std::string::npos, "error() does not say so");
          work.wait();
        } else {
          for (int i = 0; i < 2000 && c.error().empty(); i++) std::this_thread::sleep_for(1ms);
          c.all_reduce(buffer.data(), buffer.data(), 10, kType, ReduceOp::sum, in(stream));
        }
      },
      options);
  CHECK_THAT(errors[0], Catch::Contains("all_reduce") && Catch::Contains("timed out") &&
                            Catch::Contains("rank 1"));
  CHECK_THAT(errors[1], Catch::Contains("broken") && Catch::Contains("timed out"));
}

TEST_CASE("devices: a rank whose stream does not come to the call is named", "[comm]") {
  auto options = options_for("");
  options.timeout = 400ms;
  std::atomic<bool> is_over{false};
  const auto errors = run_on_devices(
      2,
      [&](Communicator& c) {
        const OwnedStream stream;
        const Device there(ramp(10, 0));
        Values here(10);
        if (c.rank() == 1) {
          // As a long kernel of the caller's.
          check_cuda(cudaLaunchHostFunc(
                         stream,
                         [](void* over) {
                           const auto end = std::chrono::steady_clock::now() + 3s;
                           while (!*static_cast<std::atomic<bool>*>(over) &&
                                  std::chrono::steady_clock::now() < end) {
                             std::this_thread::sleep_for(1ms);
                           }
                         },
                         &is_over),
                     "a host function");
        }
        auto* const buffer = c.rank() == 1 ? there.data() : here.data();
        auto work = c.all_reduce_async(buffer, buffer, 10, kType, ReduceOp::sum,
                                       c.rank() == 1 ? in(stream) : CallOptions{});
        if (c.rank() == 1) {
          for (int i = 0; i < 2000 && c.error().empty(); i++) std::this_thread::sleep_for(1ms);
          is_over = true;
        }
        work.wait();
      },
      options, [](int rank) { return rank == 1; });
  CHECK_THAT(errors[0], Catch::Contains("timed out") && Catch::Contains("rank 1") &&
                            Catch::Contains("its stream has not come to it"));
  CHECK_THAT(errors[1], Catch::Contains("timed out"));
}

TEST_CASE("devices: ranks that call different things are told, and their streams go on", "[comm]") {
  const auto errors = run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(ramp(10, 0));
    auto options = in(stream);
    options.label = c.rank() == 0 ? "gradients" : "weights";
    auto work =
        c.rank() == 0
            ? c.all_reduce_async(buffer.data(), buffer.data(), 10, kType, ReduceOp::sum, options)
            : c.broadcast_async(buffer.data(), buffer.data(), 9, kType, 0, options);
    stream.wait();
    work.wait();
    c.barrier();
  });
  for (const auto& error : errors)
    CHECK_THAT(error, Catch::Contains("gradients") && Catch::Contains("weights"));
}

TEST_CASE("devices: abort() and close() end what is in streams", "[comm]") {
  const bool closes = GENERATE(false, true);
  const auto errors = run_on_devices(2, [closes](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(ramp(10, 0));
    if (c.rank() == 1) {
      // The other's call is under way, or soon is.
      std::this_thread::sleep_for(20ms);
      return c.abort("enough");
    }
    auto work =
        c.all_reduce_async(buffer.data(), buffer.data(), 10, kType, ReduceOp::sum, in(stream));
    if (closes) c.close();
    stream.wait();
    work.wait();
  });
  CHECK_THAT(errors[0], closes ? Catch::Contains("destroyed") : Catch::Contains("enough"));
  CHECK(errors[1].empty());
}

TEST_CASE("devices: what CUDA says of a device that has failed is told on all ranks", "[comm]") {
  std::atomic<int> ended{0};
  const auto errors = run_on_devices(
      2,
      [&](Communicator& c) {
        const OwnedStream stream;
        const Device there(ramp(10, 0));
        Values here(10);
        auto* const buffer = c.rank() == 0 ? there.data() : here.data();
        c.barrier();
        if (c.rank() == 0) cuda_on_host_fails(cudaErrorIllegalAddress);
        auto again = [&] {
          auto work = c.all_reduce_async(buffer, buffer, 10, kType, ReduceOp::sum,
                                         c.rank() == 0 ? in(stream) : CallOptions{});
          work.wait();
        };
        const auto told = message_of(again);
        // The device is mended before its streams are given back.
        if (++ended == 2) cuda_on_host_fails(cudaSuccess);
        while (ended < 2) std::this_thread::yield();
        throw std::runtime_error(told);
      },
      options_for(""), [](int rank) { return rank == 0; });
  for (const auto& error : errors)
    CHECK_THAT(error, Catch::Contains("rank 0 failed") && Catch::Contains("700"));
}

TEST_CASE("devices: what two ranks send each other at once, in each way there is", "[comm]") {
  auto options = options_for("");
  options.device_memory = 16 << 10;
  check_all_well(run_on_devices(
      2,
      [](Communicator& c) {
        const int other = 1 - c.rank();
        for (const std::size_t count : {10UL, 3000UL, 50'000UL}) {
          const Device out(ramp(count, c.rank())), got(Values(count, 0));
          const OwnedStream one, two;
          const auto check = [&](const char* what) {
            expect(got.values() == ramp(count, other), what);
            check_cuda(cudaMemset(got.data(), 0, 4 * count), "memset");
            c.barrier();
          };
          auto coming = c.recv_async(got.data(), count, kType, other);
          auto going = c.send_async(out.data(), count, kType, other);
          coming.wait();
          going.wait();
          check("without a stream");
          c.recv(got.data(), count, kType, other, 0, in(one));
          c.send(out.data(), count, kType, other, 0, in(two));
          one.wait();
          two.wait();
          check("in two streams");
          group_begin();
          c.recv(got.data(), count, kType, other, 0, in(one));
          c.send(out.data(), count, kType, other, 0, in(one));
          group_end();
          one.wait();
          check("in one stream, in a group");
          group_begin();
          c.recv(got.data(), count, kType, other);
          c.send(out.data(), count, kType, other);
          group_end();
          check("without a stream, in a group");
        }
      },
      options));
}

TEST_CASE("devices: messages without a stream are not overtaken", "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    std::vector<Device> buffers;
    std::vector<Work> works;
    for (int i = 0; i < 50; i++) buffers.emplace_back(c.rank() == 0 ? Values(20, i) : Values(20));
    for (auto& buffer : buffers)
      works.push_back(c.rank() == 0 ? c.send_async(buffer.data(), 20, kType, 1)
                                    : c.recv_async(buffer.data(), 20, kType, 0));
    for (auto& work : works) work.wait();
    for (int i = 0; i < 50; i++)
      expect(buffers[static_cast<std::size_t>(i)].values() == Values(20, i), "overtaken");
  }));
}

TEST_CASE("devices: nor by those of the host's memory, nor by empty ones", "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    constexpr int kMessages = 60;
    std::vector<Device> there;
    std::vector<Values> here;
    std::vector<Work> works;
    const auto count_of = [](int i) { return i % 5 == 4 ? 0UL : 20UL; };
    // The two ends differ in where they have a message.
    const auto is_there = [&](int i) { return c.rank() == 0 ? i % 3 == 0 : i % 2 == 0; };
    for (int i = 0; i < kMessages; i++) {
      const auto values = c.rank() == 0 ? Values(20, i) : Values(20);
      there.emplace_back(values);
      here.push_back(values);
    }
    for (int i = 0; i < kMessages; i++) {
      const auto n = static_cast<std::size_t>(i);
      auto* const data = is_there(i) ? there[n].data() : here[n].data();
      works.push_back(c.rank() == 0 ? c.send_async(data, count_of(i), kType, 1)
                                    : c.recv_async(data, count_of(i), kType, 0));
    }
    for (auto& work : works) work.wait();
    for (int i = 0; c.rank() == 1 && i < kMessages; i++) {
      const auto n = static_cast<std::size_t>(i);
      expect((is_there(i) ? there[n].values() : here[n]) == Values(20, count_of(i) > 0 ? i : 0),
             fmt::format("message {} was overtaken", i));
    }
  }));
}

TEST_CASE("devices: a message that ends only after collectives does not hold them up", "[comm]") {
  auto options = options_for("");
  options.device_memory = 64 << 10;
  options.timeout = 60s;
  check_all_well(run_on_devices(
      2,
      [](Communicator& c) {
        constexpr std::size_t kCount = 12'000;
        const Device message(ramp(kCount, c.rank())), sums(Values(kCount, 1));
        std::optional<Work> coming;
        if (c.rank() == 0) coming = c.recv_async(message.data(), kCount, kType, 1);
        for (int i = 0; i < 5; i++)
          c.all_reduce(sums.data(), sums.data(), kCount, kType, ReduceOp::sum);
        if (c.rank() == 1) c.send(message.data(), kCount, kType, 0);
        if (coming) coming->wait();
        expect(message.values() == ramp(kCount, 1), "the message");
        expect(sums.values() == Values(kCount, 32), "the sums");
      },
      options));
}

TEST_CASE("devices: a communicator's end in an open group is its batches' end", "[comm]") {
  auto options = options_for("");
  options.device = 0;
  const OwnedStream stream;
  const Device buffer(Values(4));
  const auto group = [&](bool is_closed) {
    group_begin();
    {
      auto alone = Communicator::create(make_inproc_store(), 0, 1, options);
      alone.send(buffer.data(), 4, kType, 0, 0, in(stream));
      if (is_closed) alone.close();
    }
    group_end();
  };
  for (const bool is_closed : {false, true})
    CHECK_THAT(message_of([&] { group(is_closed); }),
               Catch::StartsWith("aborted") && Catch::Contains("ended before its group"));
}

TEST_CASE("devices: two threads in blocking collectives are told", "[comm]") {
  std::atomic<int> refused{0};
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const Device sums(Values(10, 1));
    const auto call = [&] { c.all_reduce(sums.data(), sums.data(), 10, kType, ReduceOp::sum); };
    if (c.rank() == 1) {
      while (refused == 0) std::this_thread::sleep_for(1ms);
      return call();
    }
    const auto errors = testing::run_threads(2, [&](int) {
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
  auto options = options_for("");
  options.device = 0;
  options.device_memory = 64 << 10;
  const auto make = [&] { return Communicator::create(make_inproc_store(), 0, 1, options); };
  const Device large(Values(40'000, 1));
  constexpr std::uint64_t kRing = 64 << 10, kApart = 256 << 10;
  {
    auto there_meanwhile = make();
    for (int i = 0; i < 3; i++) {
      auto each = make();
      CHECK(each.counters().device_memory_bytes == kRing + (i > 0 ? kApart : 0));
      each.all_reduce(large.data(), large.data(), 40'000, kType, ReduceOp::sum);
      CHECK(each.counters().device_memory_bytes == kRing + kApart);
    }
    CHECK(there_meanwhile.counters().device_memory_bytes == kRing);
  }
  CHECK(make().counters().device_memory_bytes == kRing);
}

TEST_CASE("devices: a call behind the default stream is refused while that is in a capture's way",
          "[comm]") {
  auto options = options_for("");
  options.device = 0;
  auto alone = Communicator::create(make_inproc_store(), 0, 1, options);
  const OwnedStream blocking(cudaStreamDefault);
  const Device sums(Values(10, 1));
  const auto call = [&] { alone.all_reduce(sums.data(), sums.data(), 10, kType, ReduceOp::sum); };
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
  options.device_memory = 8 << 10;
  check_all_well(run_on_devices(
      1,
      [](Communicator& c) {
        const auto errors = testing::run_threads(4, [&](int thread) {
          const OwnedStream stream;
          for (int i = 0; i < 200; i++) {
            const Device buffer(ramp(700, thread + i)), sums(Values(700));
            c.all_reduce(buffer.data(), sums.data(), 700, kType, ReduceOp::sum, in(stream));
            stream.wait();
            expect(sums.values() == ramp(700, thread + i), "wrong sums");
          }
        });
        for (const auto& error : errors) expect(error.empty(), error);
      },
      options));
}

TEST_CASE("devices: a graph goes on after its communicator has failed, or is gone", "[comm]") {
  const auto how = GENERATE(as<std::string>(), "mismatch", "abort", "close while it runs");
  CAPTURE(how);
  const auto errors = run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(Values(100, 1));
    c.barrier();
    const Graph graph(stream, [&] {
      c.all_reduce(buffer.data(), buffer.data(), 100, kType, ReduceOp::sum, in(stream));
    });
    graph.launch(stream);
    stream.wait();
    if (how == "mismatch") {
      message_of([&] {
        c.rank() == 0 ? c.all_reduce(buffer.data(), buffer.data(), 100, kType)
                      : c.broadcast(buffer.data(), buffer.data(), 99, kType, 0);
        c.barrier();
      });
      expect(c.error().find("broadcast") != std::string::npos, c.error());
    } else if (how == "abort") {
      c.abort("enough");
    } else {
      for (int i = 0; i < 20; i++) graph.launch(stream);
      c.close();
    }
    for (int i = 0; i < 3; i++) graph.launch(stream);
    stream.wait();
  });
  check_all_well(errors);
}

TEST_CASE("devices: a Work ends where the device fails when the call has ended well", "[comm]") {
  std::atomic<bool> is_held{false}, may_go{false}, has_failed{false};
  const auto errors = run_on_devices(
      2,
      [&](Communicator& c) {
        if (c.rank() == 1) {
          while (!is_held) std::this_thread::yield();
          Values here(10);
          c.all_reduce(here.data(), here.data(), 10, kType);
          std::this_thread::sleep_for(50ms);
          cuda_on_host_fails(cudaErrorIllegalAddress);
          has_failed = true;
          return;
        }
        const OwnedStream stream, other;
        const Device there(ramp(10, 0));
        auto work =
            c.all_reduce_async(there.data(), there.data(), 10, kType, ReduceOp::sum, in(stream));
        // The stream has come to the call. From now on it can be told of nothing more.
        std::this_thread::sleep_for(50ms);
        std::pair hold(&is_held, &may_go);
        const auto wait = [](void* both) {
          const auto [held, go] = *static_cast<decltype(hold)*>(both);
          *held = true;
          while (!*go) std::this_thread::yield();
        };
        check_cuda(cudaLaunchHostFunc(other, wait, &hold), "a host function");
        const auto told = message_of([&] { work.wait(); });
        may_go = true;
        while (!has_failed) std::this_thread::yield();
        cuda_on_host_fails(cudaSuccess);
        throw std::runtime_error(told);
      },
      options_for(""), [](int rank) { return rank == 0; });
  CHECK_THAT(errors[0], Catch::Contains("700") && Catch::Contains("has not passed the call"));
}

TEST_CASE("devices: a forked child has no part in what is in streams", "[comm]") {
  if (!testing::kChildrenHaveMemory) return;
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(ramp(10, 0));
    c.barrier();
    if (c.rank() == 1) std::this_thread::sleep_for(100ms);
    auto work =
        c.all_reduce_async(buffer.data(), buffer.data(), 10, kType, ReduceOp::sum, in(stream));
    if (c.rank() == 0) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(10);
        const auto is_told = [](const std::string& text) {
          return text.find("forked child") != std::string::npos;
        };
        const bool well =
            is_told(message_of([&] { work.wait(); })) && is_told(c.error()) &&
            is_told(message_of([&] { c.all_reduce(buffer.data(), buffer.data(), 10, kType); }));
        _exit(well ? 0 : 1);
      }
      int status = -1;
      waitpid(child, &status, 0);
      expect(status == 0, fmt::format("the child ended with status {:#x}", status));
    }
    work.wait();
    auto expected = ramp(10, 0);
    for (auto& value : expected) value *= 2;
    expect(buffer.values() == expected, "the parent's call");
  }));
}
