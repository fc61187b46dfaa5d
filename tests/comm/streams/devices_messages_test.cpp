// SPDX-License-Identifier: Apache-2.0
// Messages in CUDA's streams, on a device that the host plays.
#include <fmt/format.h>

#include <chrono>

#include "devices.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

TEST_CASE("devices: messages", "[comm]") {
  const auto transport = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  check_all_well(run_on_devices(
      2,
      [](Communicator& c) {
        const int other = 1 - c.rank();
        for (const std::size_t count : {0UL, 1UL, 1000UL, 100'000UL}) {
          const OwnedStream stream;
          const Device out(ramp(count, c.rank())), got(Values(count + 3, -1));
          auto work = c.send_recv_async(ConstBlock(out.data(), count, kType), other,
                                        Block(got.data(), count + 3, kType), other, 5, in(stream));
          work.wait();
          auto expected = ramp(count, other);
          expected.resize(count + 3, -1);
          expect(got.values() == expected, "send_recv, or what lies behind what came");
          expect(work.received(0).count == count, "another count than was sent");
          // A message from the device to the host, made synchronously.
          Values here(count);
          if (c.rank() == 0) {
            c.send(ConstBlock(out.data(), count, kType), 1);
            c.recv(Block(here.data(), count, kType), 1);
          } else {
            c.recv(Block(here.data(), count, kType), 0);
            c.send(ConstBlock(out.data(), count, kType), 0);
          }
          expect(here == ramp(count, other), "send and recv without a stream");
          const MessageRequest requests[] = {
              MessageRequest::recv(Block(got.data(), count, kType), other),
              MessageRequest::send(ConstBlock(out.data(), count, kType), other)};
          c.batch(requests, in(stream));
          stream.wait();
          expect(got.values() == expected, "batch");
        }
      },
      options_for(transport)));
}

TEST_CASE("devices: what two ranks send each other at once, in each way there is", "[comm]") {
  auto options = options_for("");
  options.device.staging_bytes = 16 << 10;
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
          auto coming = c.recv_async(Block(got.data(), count, kType), other);
          auto going = c.send_async(ConstBlock(out.data(), count, kType), other);
          coming.wait();
          going.wait();
          check("without a stream");
          c.recv(Block(got.data(), count, kType), other, 0, in(one));
          c.send(ConstBlock(out.data(), count, kType), other, 0, in(two));
          one.wait();
          two.wait();
          check("in two streams");
          group_begin();
          c.recv(Block(got.data(), count, kType), other, 0, in(one));
          c.send(ConstBlock(out.data(), count, kType), other, 0, in(one));
          group_end();
          one.wait();
          check("in one stream, in a group");
          group_begin();
          c.recv(Block(got.data(), count, kType), other);
          c.send(ConstBlock(out.data(), count, kType), other);
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
      works.push_back(c.rank() == 0 ? c.send_async(ConstBlock(buffer.data(), 20, kType), 1)
                                    : c.recv_async(Block(buffer.data(), 20, kType), 0));
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
    // The two ends keep the same message in different kinds of memory.
    const auto is_there = [&](int i) { return c.rank() == 0 ? i % 3 == 0 : i % 2 == 0; };
    for (int i = 0; i < kMessages; i++) {
      const auto values = c.rank() == 0 ? Values(20, i) : Values(20);
      there.emplace_back(values);
      here.push_back(values);
    }
    for (int i = 0; i < kMessages; i++) {
      const auto n = static_cast<std::size_t>(i);
      auto* const data = is_there(i) ? there[n].data() : here[n].data();
      works.push_back(c.rank() == 0 ? c.send_async(ConstBlock(data, count_of(i), kType), 1)
                                    : c.recv_async(Block(data, count_of(i), kType), 0));
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
  options.device.staging_bytes = 64 << 10;
  options.timeout = 60s;
  check_all_well(run_on_devices(
      2,
      [](Communicator& c) {
        constexpr std::size_t kCount = 12'000;
        const Device message(ramp(kCount, c.rank())), sums(Values(kCount, 1));
        std::optional<Work> coming;
        if (c.rank() == 0) coming = c.recv_async(Block(message.data(), kCount, kType), 1);
        for (int i = 0; i < 5; i++) c.all_reduce(Block(sums.data(), kCount, kType), ReduceOp::sum);
        if (c.rank() == 1) c.send(ConstBlock(message.data(), kCount, kType), 0);
        if (coming) coming->wait();
        expect(message.values() == ramp(kCount, 1), "the message");
        expect(sums.values() == Values(kCount, 32), "the sums");
      },
      options));
}

TEST_CASE("devices: a communicator's end in an open group is its batches' end", "[comm]") {
  auto options = on_device();
  const OwnedStream stream;
  const Device buffer(Values(4));
  const auto group = [&](bool is_closed) {
    group_begin();
    {
      auto alone = Communicator::create(make_inproc_store(), 0, 1, options);
      alone.send(ConstBlock(buffer.data(), 4, kType), 0, 0, in(stream));
      if (is_closed) alone.close();
    }
    group_end();
  };
  for (const bool is_closed : {false, true})
    CHECK_THAT(message_of([&] { group(is_closed); }),
               Catch::StartsWith("aborted") && Catch::Contains("ended before its group"));
}
