// SPDX-License-Identifier: Apache-2.0
// Messages that streams copy in pieces, on a device that the host plays: their data, the order in
// which they may wait for each other, their memory, what overlaps, and how they end.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include "comm/messages/byte_messages.hpp"
#include "devices.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

/// An eighth is for messages copied whole and another for pieces: 128 KiB for each of two ranks,
/// with a little at the end that stays unused.
constexpr std::size_t kMemory = 8 << 20, kPiece = (128 << 10) - 256;
constexpr std::size_t kEager = 64 << 10;
/// More than all pieces together, and no multiple of one.
constexpr std::size_t kLarge = 700'001;

CommunicatorOptions with_some_memory(const std::string& transport = "") {
  auto options = options_for(transport);
  options.device.staging_bytes = kMemory;
  return options;
}

/// `eager_sends`: how many sends can be pending without waiting for receives or memory.
void expect_bounded(const Communicator& c, std::size_t eager_sends = 0) {
  const auto held = c.counters().device_memory_bytes;
  expect(held <= kMemory + eager_sends * kEager, fmt::format("{} bytes of pinned memory", held));
}

/// Fills a stream's queue: only as many operations can wait as a GPU may have room for.
struct QueuesThatFill {
  QueuesThatFill() { setenv("CCOLL_GPU_FAULT", "full", 1); }
  QueuesThatFill(const QueuesThatFill&) = delete;
  QueuesThatFill& operator=(const QueuesThatFill&) = delete;
  ~QueuesThatFill() { unsetenv("CCOLL_GPU_FAULT"); }
};

/// Holds copies while it lives.
struct HeldCopies {
  HeldCopies() { cuda_on_host_holds_copies(true); }
  HeldCopies(const HeldCopies&) = delete;
  HeldCopies& operator=(const HeldCopies&) = delete;
  ~HeldCopies() { cuda_on_host_holds_copies(false); }
};

}  // namespace

TEST_CASE("devices: messages of any size arrive whole, in bounded memory", "[comm][property]") {
  if (asked_way() != "host") return;  // messages are made by the host only
  const unsigned seed = std::random_device{}();
  const auto transport = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const int size = GENERATE(1, 2, 3);
  const bool is_mixed = GENERATE(false, true);
  if (is_mixed && size == 1) return;
  CAPTURE(seed, transport, size, is_mixed);
  const auto has_device = [&](int rank) { return !is_mixed || rank + 1 < size; };
  const int trials = testing::by_effort(10, 25, 100);
  const auto body = [&](Communicator& c) {
    std::mt19937 same(seed), own(seed + 1 + static_cast<unsigned>(c.rank()));
    const int to = (c.rank() + 1) % size, from = (c.rank() + size - 1) % size;
    for (int i = 0; i < trials; i++) {
      // Indexed by receiver.
      std::vector<std::size_t> bytes(static_cast<std::size_t>(size));
      for (auto& each : bytes) {
        const std::size_t borders[] = {0, kEager, kPiece, 4 * kPiece, 8 * kPiece, 3 * kPiece};
        each = borders[same() % 6] + same() % (same() % 2 == 0 ? 3 : 500'000);
        each -= std::min<std::size_t>(each, same() % 3);
      }
      const auto sent = bytes[static_cast<std::size_t>(to)];
      const auto got = bytes[static_cast<std::size_t>(c.rank())];
      const auto number = [&](int receiver) {
        return static_cast<std::uint32_t>(100 * i + receiver);
      };
      const std::size_t before_out = own() % 300, before_in = own() % 300;
      const std::size_t room = got + (own() % 2 == 0 ? 0 : own() % 400'000);
      const bool is_there = has_device(c.rank());
      MessageBytes out_bytes(before_out + sent), in_bytes(before_in + room + 9, 0xa5);
      std::ranges::copy(message_bytes(sent, number(to)),
                        out_bytes.begin() + static_cast<std::ptrdiff_t>(before_out));
      MessagePlace out(is_there && own() % 5 != 0, out_bytes),
          in_(is_there && own() % 5 != 0, in_bytes);
      const OwnedStream stream;
      const auto how = own() % 3;
      const auto call = [&] {
        return c.send_recv_async(ConstBlock(out.data() + before_out, sent, kByte), to,
                                 Block(in_.data() + before_in, room, kByte), from, i,
                                 how > 0 && is_there ? in(stream) : CallOptions{});
      };
      if (how == 2 && is_there) {
        const Graph graph(stream, [&] { call(); });
        graph.launch(stream);
        stream.wait();
      } else {
        auto work = call();
        work.wait();
        expect(work.received(0).bytes == got, "another size than was sent");
      }
      std::ranges::copy(message_bytes(got, number(c.rank())),
                        in_bytes.begin() + static_cast<std::ptrdiff_t>(before_in));
      expect(in_.bytes() == in_bytes, fmt::format("message {} of {} bytes", i, got));
      expect(out.bytes() == out_bytes, "what was sent has changed");
      // CUDA may release the last messages' resources a little later.
      expect_bounded(c, 4);
    }
  };
  check_all_well(run_on_devices(size, body, with_some_memory(transport), has_device));
}

TEST_CASE("devices: large messages need no order among themselves", "[comm]") {
  if (asked_way() != "host") return;
  const auto transport = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  check_all_well(run_on_devices(
      2,
      [](Communicator& c) {
        const int other = 1 - c.rank();
        const OwnedStream stream, second;
        const DeviceBuffer<std::uint8_t> out(message_bytes(kLarge, 1 + c.rank())),
            got(MessageBytes(kLarge, 0)), first(MessageBytes(kLarge, 0));
        for (int i = 0; i < 3; i++) {
          // One rank batches them, the other receives in any order.
          if (c.rank() == 0) {
            const MessageRequest requests[] = {
                MessageRequest::send(ConstBlock(out.data(), kLarge, kByte), other),
                MessageRequest::recv(Block(got.data(), kLarge, kByte), other)};
            c.batch(requests, in(stream));
          } else {
            c.recv(Block(got.data(), kLarge, kByte), other, 0, in(stream));
            c.send(ConstBlock(out.data(), kLarge, kByte), other, 0, in(stream));
          }
          stream.wait();
          expect(got.values() == message_bytes(kLarge, 1 + other), "a message");
          // A receive is pending whose message comes last; it must not block later ones.
          auto last = c.recv_async(Block(got.data(), kLarge, kByte), other, 9, in(second));
          c.send_recv(ConstBlock(out.data(), kLarge, kByte), other,
                      Block(first.data(), kLarge, kByte), other, 7, in(stream));
          stream.wait();
          c.send(ConstBlock(out.data(), kLarge, kByte), other, 9, in(stream));
          last.wait();
          expect(got.values() == message_bytes(kLarge, 1 + other), "the one that comes last");
          expect_bounded(c);
        }
      },
      with_some_memory(transport)));
}

TEST_CASE("devices: more large messages at once than there are pieces for, between all ranks",
          "[comm]") {
  if (asked_way() != "host") return;
  const auto transport = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  constexpr int kRanks = 4, kOfEach = 2;
  const auto body = [](Communicator& c) {
    std::vector<DeviceBuffer<std::uint8_t>> out, got;
    std::vector<MessageRequest> requests;
    const auto number = [](int from, int to, int tag) {
      return static_cast<std::uint32_t>(100 * from + 10 * to + tag);
    };
    for (int tag = 0; tag < kOfEach; tag++) {
      for (int other = 0; other < kRanks; other++) {
        const std::size_t bytes = kLarge + static_cast<std::size_t>(tag);
        out.emplace_back(message_bytes(bytes, number(c.rank(), other, tag)));
        got.emplace_back(MessageBytes(bytes, 0));
        requests.push_back(
            MessageRequest::send(ConstBlock(out.back().data(), bytes, kByte), other, tag));
        requests.push_back(
            MessageRequest::recv(Block(got.back().data(), bytes, kByte), other, tag));
      }
    }
    const OwnedStream stream;
    c.batch(requests, in(stream));
    std::size_t place = 0;
    stream.wait();
    for (int tag = 0; tag < kOfEach; tag++)
      for (int other = 0; other < kRanks; other++, place++)
        expect(got[place].values() == message_bytes(kLarge + static_cast<std::size_t>(tag),
                                                    number(other, c.rank(), tag)),
               fmt::format("message {} from rank {}", tag, other));
    expect_bounded(c);
  };
  check_all_well(run_on_devices(kRanks, body, with_some_memory(transport)));
}

TEST_CASE("devices: what streams copy of many short messages stays within its memory", "[comm]") {
  if (asked_way() != "host") return;
  constexpr int kMessages = 100;
  constexpr std::size_t kBytes = 5000;
  const bool is_captured = GENERATE(false, true);
  check_all_well(run_on_devices(
      2,
      [&](Communicator& c) {
        std::vector<MessagePlace> got;
        std::vector<Work> works;
        std::vector<std::unique_ptr<Graph>> graphs;
        const OwnedStream stream;
        for (std::uint32_t i = 0; i < kMessages; i++) {
          if (c.rank() == 1) {
            auto bytes = message_bytes(kBytes, i);
            if (!is_captured) c.barrier();
            c.send(ConstBlock(bytes.data(), kBytes, kByte), 0, static_cast<int>(i));
            continue;
          }
          got.emplace_back(true, MessageBytes(kBytes, 0));
          const auto call = [&](const CallOptions& options) {
            return c.recv_async(Block(got.back().data(), kBytes, kByte), 1, static_cast<int>(i),
                                options);
          };
          if (is_captured) {
            graphs.push_back(std::make_unique<Graph>(stream, [&] { call(in(stream)); }));
          } else {
            works.push_back(call({}));
          }
          expect_bounded(c);
          if (!is_captured) c.barrier();
        }
        for (const auto& graph : graphs) graph->launch(stream);
        stream.wait();
        for (auto& work : works) work.wait();
        for (std::uint32_t i = 0; i < got.size(); i++)
          expect(got[i].bytes() == message_bytes(kBytes, i), fmt::format("message {}", i));
      },
      with_some_memory(), [](int rank) { return rank == 0; }));
}

TEST_CASE("devices: graphs of large messages, as often as they are launched", "[comm]") {
  if (asked_way() != "host") return;
  const auto transport = GENERATE(as<std::string>(), "inproc", "shm");
  check_all_well(run_on_devices(
      2,
      [](Communicator& c) {
        const int other = 1 - c.rank();
        const OwnedStream stream;
        const DeviceBuffer<std::uint8_t> out(MessageBytes(kLarge, 0)), got(MessageBytes(kLarge, 0));
        std::vector<std::unique_ptr<Graph>> graphs;
        for (int i = 0; i < 5; i++)
          graphs.push_back(std::make_unique<Graph>(stream, [&] {
            c.send_recv(ConstBlock(out.data(), kLarge, kByte), other,
                        Block(got.data(), kLarge, kByte), other, i, in(stream));
          }));
        for (int i = 0; i < 15; i++) {
          check_cuda(cudaMemsetAsync(out.data(), 2 * i + c.rank(), kLarge, stream), "memset");
          graphs[static_cast<std::size_t>(i % 5)]->launch(stream);
          check_cuda(cudaStreamSynchronize(stream), "waiting");
          expect(got.values() == MessageBytes(kLarge, static_cast<std::uint8_t>(2 * i + other)),
                 fmt::format("launch {}", i));
          expect_bounded(c);
        }
      },
      with_some_memory(transport)));
}

TEST_CASE("devices: a large message is sent as its stream has come to it, which goes on behind it",
          "[comm]") {
  if (asked_way() != "host") return;
  check_all_well(run_on_devices(
      2,
      [](Communicator& c) {
        const OwnedStream stream;
        const DeviceBuffer<std::uint8_t> buffer(MessageBytes(kLarge, 0)),
            copy(MessageBytes(kLarge, 0));
        for (int i = 1; i < 6; i++) {
          std::atomic<bool> may_go = false;
          if (c.rank() == i % 2) {
            hold_until(may_go, stream);
            check_cuda(cudaMemsetAsync(buffer.data(), i, kLarge, stream), "memset");
            c.send(ConstBlock(buffer.data(), kLarge, kByte), 1 - c.rank(), 0, in(stream));
            check_cuda(cudaMemsetAsync(buffer.data(), 0xee, kLarge, stream), "memset");
          } else {
            check_cuda(cudaMemsetAsync(buffer.data(), 0xdd, kLarge, stream), "memset");
            c.recv(Block(buffer.data(), kLarge, kByte), 1 - c.rank(), 0, in(stream));
            check_cuda(
                cudaMemcpyAsync(copy.data(), buffer.data(), kLarge, cudaMemcpyDefault, stream),
                "a copy");
            check_cuda(cudaMemsetAsync(buffer.data(), 0xee, kLarge, stream), "memset");
          }
          may_go = true;
          check_cuda(cudaStreamSynchronize(stream), "waiting");
          if (c.rank() != i % 2)
            expect(copy.values() == MessageBytes(kLarge, static_cast<std::uint8_t>(i)),
                   "out of order");
        }
      },
      with_some_memory()));
}

TEST_CASE("devices: no piece is copied before there is somebody for it, and none too many",
          "[comm]") {
  if (asked_way() != "host") return;
  const bool sends = GENERATE(true, false);
  CAPTURE(sends);
  std::atomic<bool> is_posted = false;
  std::optional<HeldCopies> held;
  held.emplace();
  const auto made = [before = cuda_on_host_copies()] { return cuda_on_host_copies() - before; };
  const auto stand = [before = cuda_on_host_held_copies()] {
    return cuda_on_host_held_copies() - before;
  };
  check_all_well(run_on_devices(
      2,
      [&](Communicator& c) {
        MessagePlace buffer(c.rank() == 0, message_bytes(kLarge, c.rank() == 0 && sends ? 1 : 2));
        const auto call = [&](bool is_send) {
          return is_send ? c.send_async(ConstBlock(buffer.data(), kLarge, kByte), 1 - c.rank())
                         : c.recv_async(Block(buffer.data(), kLarge, kByte), 1 - c.rank());
        };
        if (c.rank() == 1) {
          expect(eventually([&] { return is_posted.load(); }), "no message");
          leave_time(20ms);
          expect(stand() == 0, "copied before there was anybody for it");
          call(!sends).wait();
          if (sends) expect(buffer.bytes() == message_bytes(kLarge, 1), "the message");
          return;
        }
        auto work = call(sends);
        is_posted = true;
        expect(eventually([&] { return stand() == 1; }), "none was begun");
        leave_time(20ms);
        const bool is_over = work.test();
        held.reset();
        expect(!is_over, "over before it was copied");
        work.wait();
        if (!sends) expect(buffer.bytes() == message_bytes(kLarge, 2), "the message");
      },
      with_some_memory("inproc"), [](int rank) { return rank == 0; }));
  // Data is copied as soon as a whole piece has arrived; at the end of the memory it wraps around
  // in two stretches.
  if (sends)
    CHECK(made() == (kLarge + kPiece - 1) / kPiece);
  else
    CHECK(made() <= 2 * (kLarge / kPiece + 1));
}

TEST_CASE("devices: whatever ends a large message, its buffer is not touched any more", "[comm]") {
  if (asked_way() != "host") return;
  const auto how = GENERATE(as<std::string>(), "abort", "time limit", "close");
  const bool in_graph = GENERATE(false, true);
  CAPTURE(how, in_graph);
  auto options = with_some_memory();
  if (how == "time limit") options.timeout = 2s;
  std::optional<HeldCopies> held;
  const auto stand = [before = cuda_on_host_held_copies()] {
    return cuda_on_host_held_copies() - before;
  };
  std::atomic<int> here = 0;
  const auto meet = [&, at = 0]() mutable {
    at += 2;
    here++;
    eventually([&] { return here >= at; });
  };
  const auto errors = run_on_devices(
      2,
      [&, meet](Communicator& c) {
        auto both_are_here = meet;
        const int rank = c.rank(), other = 1 - rank;
        const OwnedStream stream;
        const DeviceBuffer<std::uint8_t> out(message_bytes(kLarge, 1)),
            got(MessageBytes(kLarge, 0));
        std::optional<Work> work;
        const auto call = [&] {
          work = c.send_recv_async(ConstBlock(out.data(), kLarge, kByte), other,
                                   Block(got.data(), kLarge, kByte), other, 0, in(stream));
        };
        std::optional<Graph> graph;
        if (in_graph) graph.emplace(stream, call);
        c.barrier();
        if (rank == 0) held.emplace();
        both_are_here();
        graph ? graph->launch(stream) : call();
        expect(eventually([&] { return stand() >= 1; }), "no copy is under way");
        if (how == "abort" && rank == 0) c.abort("enough");
        if (how == "close" && rank == 0) c.close();
        if (how != "close" || rank == 1) wait_for_error(c);
        both_are_here();
        // The stream waits while the data it needs is being copied.
        const bool stands = !ends_within(20ms, stream);
        both_are_here();
        if (rank == 0) held.reset();
        expect(stands, "the stream went on before its copies were over");
        expect(ends_within(20s, stream), "the stream stands");
        if (!graph) expect(message_of([&] { work->wait(); }) != "no error", "no error");
        check_cuda(cudaMemset(got.data(), 7, kLarge), "memset");
        if (graph) {
          graph->launch(stream);
          expect(ends_within(20s, stream), "the graph's second run stands");
        }
        both_are_here();
        expect(got.values() == MessageBytes(kLarge, 7), "written after the error");
        throw std::runtime_error("told: " + (how == "close" ? std::string() : c.error()));
      },
      options);
  for (const auto& error : errors) {
    CHECK_THAT(error, Catch::StartsWith("told: "));
    if (how == "abort") CHECK_THAT(error, Catch::Contains("enough"));
    if (how == "time limit") CHECK_THAT(error, Catch::Contains("timed out"));
  }
}

TEST_CASE("devices: a message of any length leaves room in its stream, so that no caller waits",
          "[comm]") {
  if (asked_way() != "host") return;
  const QueuesThatFill full;
  auto options = options_for("inproc");
  options.device.staging_bytes = 1;
  check_all_well(run_on_devices(
      2,
      [&](Communicator& c) {
        constexpr std::size_t kBytes = 24 << 20;
        const int other = 1 - c.rank();
        const OwnedStream first, second;
        const DeviceBuffer<std::uint8_t> out(message_bytes(kBytes, 1)),
            got(MessageBytes(kBytes, 0));
        // If the first call waited, it would wait for the other rank's second call.
        auto sent = c.send_async(ConstBlock(out.data(), kBytes, kByte), other, 0, in(first));
        auto received = c.recv_async(Block(got.data(), kBytes, kByte), other, 0, in(second));
        sent.wait();
        received.wait();
        expect(got.values() == message_bytes(kBytes, 1), "a message");
        // The message's own pieces are longer, but still a small part of it.
        const auto held = c.counters().device_memory_bytes;
        expect(held < kBytes / 8, fmt::format("{} bytes of pinned memory", held));
      },
      options));
}
