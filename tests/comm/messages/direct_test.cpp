// SPDX-License-Identifier: Apache-2.0
// Messages that RDMA carries directly from and to GPU memory. The host plays CUDA, with memory that
// no CPU can touch (support/gpu/cuda_on_host). The RDMA device is in memory, too
// (rdma/device.hpp), and reaches the GPU's memory only by dma-buf.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <memory>
#include <random>
#include <thread>

#include "byte_messages.hpp"
#include "ccoll/memory.hpp"
#include "comm/streams/devices.hpp"
#include "rdma/device.hpp"
#include "rdma/faults.hpp"
#include "support/eventually.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/logged.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kLong = 200'000;

CommunicatorOptions direct(bool checksum = false) {
  auto options = options_for("verbs");
  options.device.direct_messages = true;
  options.checksum = checksum;
  return options;
}

/// Opens the links.
void meet(Communicator& c, const CallOptions& options) {
  const int other = 1 - c.rank();
  const DeviceBuffer<std::uint8_t> out(message_bytes(kLong, 0)), got(MessageBytes(kLong, 0));
  for (int i = 0; i < 2; i++)
    c.send_recv_async(ConstBlock(out.data(), kLong, kByte), other, Block(got.data(), kLong, kByte),
                      other, 0, options)
        .wait();
  expect(got.values() == message_bytes(kLong, 0), "the first messages");
}

/// CUDA's own thread releases the resources of graphs and calls.
void check_nothing_left() {
  rdma::reset();
  CHECK(eventually([] { return rdma::exported_memories() == 0; }));
  CHECK(rdma::objects().pairs == 0);
  CHECK(rdma::times_not_ready() == 0);
}

/// Runs two ranks with open links.
void check_two(const std::function<void(Communicator&, Communicator& host, cudaStream_t)>& body,
               const CommunicatorOptions& options = direct()) {
  cuda_on_host_hides_memory(true);
  check_all_well(run_on_devices_and_host(
      2,
      [&](Communicator& c, Communicator& host) {
        const OwnedStream stream;
        meet(c, in(stream));
        stream.wait();
        body(c, host, stream);
        stream.wait();
      },
      options, [](int) { return true; }));
  check_nothing_left();
}

std::uint64_t exported() { return rdma::times_called(rdma::Call::reg_dmabuf_mr); }

/// Sends a message of `bytes` each way and checks it.
void exchange(Communicator& c, cudaStream_t stream, std::size_t bytes = kLong) {
  const int other = 1 - c.rank();
  const auto mine = static_cast<std::uint32_t>(10 + c.rank());
  const DeviceBuffer<std::uint8_t> out(message_bytes(bytes, mine)), got(MessageBytes(bytes, 0));
  c.send_recv_async(ConstBlock(out.data(), bytes, kByte), other, Block(got.data(), bytes, kByte),
                    other, 0, in(stream))
      .wait();
  expect(got.values() == message_bytes(bytes, 21 - mine), "a message");
}

}  // namespace

TEST_CASE("direct: long messages between host and device, either way, and the host copies none",
          "[comm][verbs][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  const auto before = exported();
  check_two([&](Communicator& c, Communicator& host, cudaStream_t stream) {
    std::mt19937 random(seed);
    host.barrier();
    const auto copied = cuda_on_host_copied();
    host.barrier();
    for (std::uint32_t number = 0; number < 40; number++) {
      const int from = static_cast<int>(random() % 2);
      const std::size_t bytes = (64 << 10) + 1 + random() % (number % 2 == 0 ? 5000 : 800'000);
      const std::size_t before_it = random() % 5000, behind_it = random() % 5000;
      const bool leaves_there = random() % 3 != 0, comes_there = random() % 3 != 0;
      const std::size_t room = bytes + (random() % 2 == 0 ? 0 : behind_it);
      const bool has_stream = random() % 3 != 0;
      const auto how = has_stream ? in(stream) : CallOptions{};
      MessageBytes around(before_it + bytes + behind_it, 0xa5);
      if (c.rank() == from) {
        std::ranges::copy(message_bytes(bytes, number),
                          around.begin() + static_cast<std::ptrdiff_t>(before_it));
        MessagePlace out(leaves_there, around);
        c.send_async(ConstBlock(out.data() + before_it, bytes, kByte), 1 - from, 0, how).wait();
        expect(out.bytes() == around, "what is sent has changed");
      } else {
        MessagePlace got(comes_there, around);
        auto work = c.recv_async(Block(got.data() + before_it, room, kByte), from, 0, how);
        work.wait();
        std::ranges::copy(message_bytes(bytes, number),
                          around.begin() + static_cast<std::ptrdiff_t>(before_it));
        expect(got.bytes() == around, fmt::format("message {} of {} bytes", number, bytes));
        expect(work.received().bytes == bytes, "another size");
      }
    }
    host.barrier();
    expect(cuda_on_host_copied() == copied, "bytes were copied to or from pinned memory");
  });
  CHECK(exported() > before);
}

TEST_CASE("direct: registered memory of the device is no other memory", "[comm][verbs]") {
  check_two([&](Communicator& c, Communicator& host, cudaStream_t stream) {
    const int other = 1 - c.rank();
    const auto mine = static_cast<std::uint32_t>(10 + c.rank());
    const DeviceBuffer<std::uint8_t> out(message_bytes(kLong, mine)), got(MessageBytes(kLong, 0));
    const Memory first = register_memory(out.data(), kLong);
    const Memory second = register_memory(got.data() + 100, kLong - 200);
    host.barrier();
    const auto copied = cuda_on_host_copied();
    host.barrier();
    c.send_recv_async(ConstBlock(out.data(), kLong, kByte), other, Block(got.data(), kLong, kByte),
                      other, 0, in(stream))
        .wait();
    host.barrier();
    expect(cuda_on_host_copied() == copied, "bytes were copied to or from pinned memory");
    host.barrier();
    expect(got.values() == message_bytes(kLong, 21 - mine), "a message");
  });
}

TEST_CASE("direct: short messages into long buffers of the device, and those that come first",
          "[comm][verbs]") {
  auto options = direct();
  options.strict_sends = GENERATE(false, true);
  const bool comes_first = GENERATE(false, true);
  CAPTURE(options.strict_sends, comes_first);
  check_two(
      [&](Communicator& c, Communicator& host, cudaStream_t stream) {
        std::uint32_t number = 0;
        for (const std::size_t bytes : {0, 1, 1000, 8192, 30'000, 65'536, 65'537}) {
          ++number;
          if (c.rank() == 0) {
            MessagePlace out(number % 2 == 0, message_bytes(kLong, number));
            auto work = c.send_async(ConstBlock(out.data(), bytes, kByte), 1, 0, in(stream));
            if (comes_first) leave_time(5ms);
            host.barrier();
            work.wait();
          } else {
            auto expected = MessageBytes(kLong, 0xa5);
            std::ranges::copy_n(message_bytes(kLong, number).begin(), static_cast<int>(bytes),
                                expected.begin());
            if (comes_first) host.barrier();
            const DeviceBuffer<std::uint8_t> got(MessageBytes(kLong, 0xa5));
            auto work = c.recv_async(Block(got.data(), kLong, kByte), 0, 0, in(stream));
            if (!comes_first) host.barrier();
            work.wait();
            expect(work.received().bytes == bytes, "another size");
            expect(got.values() == expected, fmt::format("{} bytes", bytes));
          }
        }
      },
      options);
}

TEST_CASE("direct: more messages at once than places are offered for", "[comm][verbs]") {
  check_two([&](Communicator& c, Communicator& host, cudaStream_t) {
    const int other = 1 - c.rank();
    std::vector<MessagePlace> out, got;
    std::vector<Work> works;
    for (std::uint32_t i = 0; i < 16; i++) {
      out.emplace_back(i % 5 != 0, message_bytes(70'000 + 20'000 * i, i));
      got.emplace_back(i % 4 != 0, MessageBytes(70'000 + 20'000 * i, 0));
    }
    for (std::size_t i = 0; i < 16; i++)
      works.push_back(c.recv_async(Block(got[i].data(), 70'000 + 20'000 * i, kByte), other));
    host.barrier();
    for (std::size_t i = 0; i < 16; i++)
      works.push_back(c.send_async(ConstBlock(out[i].data(), 70'000 + 20'000 * i, kByte), other));
    for (auto& work : works) work.wait();
    for (std::uint32_t i = 0; i < 16; i++)
      expect(got[i].bytes() == message_bytes(70'000 + 20'000 * i, i), fmt::format("message {}", i));
  });
}

TEST_CASE("direct: a message is sent when its stream has come to it, which goes on behind it",
          "[comm][verbs]") {
  check_two([&](Communicator& c, Communicator&, cudaStream_t stream) {
    const DeviceBuffer<std::uint8_t> buffer(MessageBytes(kLong, 0)), copy(MessageBytes(kLong, 0));
    for (int i = 1; i < 20; i++) {
      std::atomic<bool> may_go = false;
      if (c.rank() == i % 2) {
        hold_until(may_go, stream);
        check_cuda(cudaMemsetAsync(buffer.data(), i, kLong, stream), "memset");
        c.send(ConstBlock(buffer.data(), kLong, kByte), 1 - c.rank(), 0, in(stream));
        check_cuda(cudaMemsetAsync(buffer.data(), 0xee, kLong, stream), "memset");
      } else {
        check_cuda(cudaMemsetAsync(buffer.data(), 0xdd, kLong, stream), "memset");
        c.recv(Block(buffer.data(), kLong, kByte), 1 - c.rank(), 0, in(stream));
        check_cuda(cudaMemcpyAsync(copy.data(), buffer.data(), kLong, cudaMemcpyDefault, stream),
                   "a copy");
        check_cuda(cudaMemsetAsync(buffer.data(), 0xee, kLong, stream), "memset");
      }
      may_go = true;
      check_cuda(cudaStreamSynchronize(stream), "waiting");
      if (c.rank() != i % 2)
        expect(copy.values() == MessageBytes(kLong, static_cast<std::uint8_t>(i)), "out of order");
    }
  });
}

TEST_CASE("direct: a graph's messages, as often as it is launched", "[comm][verbs]") {
  const auto before = exported();
  check_two([&](Communicator& c, Communicator& host, cudaStream_t stream) {
    const int other = 1 - c.rank();
    const DeviceBuffer<std::uint8_t> out(MessageBytes(kLong, 0)), got(MessageBytes(kLong, 0));
    const Graph graph(stream, [&] {
      c.send_recv(ConstBlock(out.data(), kLong, kByte), other, Block(got.data(), kLong, kByte),
                  other, 0, in(stream));
    });
    host.barrier();
    const auto made = exported(), copied = cuda_on_host_copied();
    host.barrier();
    for (int i = 0; i < 20; i++) {
      const int mine = 2 * i + c.rank();
      check_cuda(cudaMemsetAsync(out.data(), mine, kLong, stream), "memset");
      graph.launch(stream);
      check_cuda(cudaStreamSynchronize(stream), "waiting");
      const auto theirs = static_cast<std::uint8_t>(2 * i + other);
      expect(got.values() == MessageBytes(kLong, theirs), fmt::format("launch {}", i));
    }
    host.barrier();
    expect(exported() == made, "it was registered anew");
    expect(cuda_on_host_copied() == copied, "bytes were copied to or from pinned memory");
    c.close();
    graph.launch(stream);
  });
  CHECK(exported() > before);
}

TEST_CASE("direct: streams flush what others write only where the device says that they have to",
          "[comm][verbs]") {
  const bool orders = GENERATE(true, false);
  cuda_on_host_orders_writes(orders, true);
  const auto before = cuda_on_host_flushes();
  check_two([](Communicator& c, Communicator&, cudaStream_t stream) { exchange(c, stream); });
  CHECK((cuda_on_host_flushes() > before) == !orders);
  cuda_on_host_orders_writes(true, true);
}

TEST_CASE("direct: where it cannot be, messages are copied as ever, which is said once",
          "[comm][verbs]") {
  const auto why = GENERATE(as<std::string>(), "checksums", "registration", "no dma-buf",
                            "no flush", "another transport");
  CAPTURE(why);
  auto options = direct(why == "checksums");
  if (why == "another transport") options.transport = "tcp";
  if (why == "no dma-buf") cuda_on_host_exports(false);
  if (why == "no flush") cuda_on_host_orders_writes(false, false);
  if (why == "registration") rdma::fail(rdma::Call::reg_dmabuf_mr, EOPNOTSUPP, 1, 1'000'000);
  const auto before = cuda_on_host_copied();
  const auto text = logged([&] {
    check_two(
        [](Communicator& c, Communicator&, cudaStream_t stream) {
          for (int i = 0; i < 3; i++) exchange(c, stream);
        },
        options);
  });
  cuda_on_host_exports(true);
  cuda_on_host_orders_writes(true, true);
  // The very first messages are always copied.
  CHECK(cuda_on_host_copied() - before >= 2 * 5 * 2 * kLong);
  const auto said = [&](const std::string& what) {
    std::size_t times = 0;
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) times++;
    return times;
  };
  const bool is_usual = why == "checksums" || why == "another transport";
  CAPTURE(text);
  CHECK(said("are copied through the host, though CCOLL_GPU_DIRECT is 1: ") == (is_usual ? 0 : 2));
  if (why == "registration") CHECK(said("cannot be registered for RDMA: ") == 2);
  if (why == "no dma-buf") CHECK(said("makes no dma-buf of its memory") == 2);
  if (why == "no flush") CHECK(said("nor can its streams flush them") == 2);
}

TEST_CASE("direct: where only one end can, the other copies", "[comm][verbs]") {
  const auto before = exported();
  check_two([&](Communicator& c, Communicator& host, cudaStream_t stream) {
    for (int i = 0; i < 12; i++) {
      // Some of the two registrations for a message each way fail.
      host.barrier();
      if (c.rank() == 0) rdma::fail(rdma::Call::reg_dmabuf_mr, ENOMEM, 1 + i % 4, 1 + i % 3);
      host.barrier();
      exchange(c, stream, kLong + static_cast<std::size_t>(1000 * i));
    }
  });
  CHECK(exported() > before);
}

TEST_CASE("direct: when an error is told, nothing touches the device's memory any more",
          "[comm][verbs]") {
  const auto how = GENERATE(as<std::string>(), "a broken path", "abort", "a time limit", "close");
  const auto seed = std::random_device{}();
  CAPTURE(how, seed);
  auto options = direct();
  options.timeout = how == "a time limit" ? 300ms : 3s;
  cuda_on_host_hides_memory(true);
  std::mt19937 random(seed);
  std::atomic<int> told = 0;
  // Without traffic the other rank waits until its time limit for the rank that has closed.
  const int rounds = how == "close" ? 2 : 6;
  for (int round = 0; round < rounds; round++) {
    const auto pulled_after = random() % 60;
    std::barrier together(2);
    const auto errors = run_on_devices(
        2,
        [&](Communicator& c) {
          // Nobody waits for a rank that throws.
          const std::unique_ptr<std::barrier<>, void (*)(std::barrier<>*)> leaves(
              &together, [](auto* all) { all->arrive_and_drop(); });
          const OwnedStream out_stream, in_stream;
          meet(c, in(out_stream));
          const int rank = c.rank(), other = 1 - rank;
          constexpr std::size_t kBytes = 2'000'000;
          const DeviceBuffer<std::uint8_t> out(message_bytes(kBytes, 1)),
              got(MessageBytes(kBytes, 0));
          together.arrive_and_wait();
          const auto sent = rdma::times_sent(1);
          auto coming = c.recv_async(Block(got.data(), kBytes, kByte), other, 0, in(in_stream));
          auto going =
              c.send_async(ConstBlock(out.data(), kBytes, kByte), other, 0, in(out_stream));
          for (int i = 0; rank == 0 && i < 100'000 && rdma::times_sent(1) < sent + pulled_after;
               i++)
            std::this_thread::yield();
          if (rank == 0) rdma::plug(false);
          together.arrive_and_wait();
          // Data in flight is held at the cable; it would move on if its queue pair still existed.
          if (rank == 1 && how == "abort") c.abort("enough");
          if (rank == 1 && how == "close") message_of([&] { c.close(); });
          if (rank == 1 && how == "a broken path") rdma::plug(true, true);
          for (Work* const work : {&coming, &going})
            told += message_of([&] { work->wait(); }) != "no error" ? 1 : 0;
          const auto left = got.values();
          together.arrive_and_wait();
          rdma::plug(true);
          leave_time(2ms);  // for data to be written after the call
          together.arrive_and_wait();
          expect(got.values() == left, "written after the call");
          in_stream.wait();
          out_stream.wait();
        },
        options);
    check_all_well(errors);
    check_nothing_left();
  }
  // This can happen when other programs occupy the cores.
  if (told == 0) WARN("no message was under way when the cable was pulled");
}

TEST_CASE("direct: all ranks say that they want it, or none", "[comm]") {
  const auto store = make_inproc_store();
  const auto errors = run_threads(2, [&](int rank) {
    auto options = options_for("tcp");
    options.device.direct_messages = rank == 1;
    Communicator::create(store, rank, 2, options);
  });
  for (const auto& error : errors)
    CHECK_THAT(error, Catch::Contains("CCOLL_GPU_DIRECT: rank 0 has 0, rank 1 has 1"));
}
