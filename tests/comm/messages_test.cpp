// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <random>

#include "support/ranks.hpp"
#include "transport/transport.hpp"

using namespace ccoll;
using testing::expect;
using testing::run_ranks;

namespace {

void on_all_transports(int size, const std::function<void(Communicator&)>& body) {
  for (const auto& kind : transports()) {
    CommunicatorOptions options;
    options.transport = kind.name;
    options.timeout = std::chrono::seconds(30);
    const auto errors = run_ranks(size, options, body);
    CAPTURE(kind.name);
    for (const auto& error : errors) CHECK(error == "");
  }
}

}  // namespace

TEST_CASE("messages: keep their order between two ranks, whatever their sizes",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  on_all_transports(2, [seed](Communicator& communicator) {
    std::mt19937_64 random(seed);
    for (std::int32_t i = 0; i < 200; i++) {
      std::vector<std::int32_t> data(random() % (i % 10 == 0 ? 300'000 : 100), i);
      if (communicator.rank() == 0) {
        communicator.send(std::span<const std::int32_t>(data), 1);
      } else {
        std::vector<std::int32_t> got(data.size(), -1);
        communicator.recv(std::span(got), 0);
        expect(got == data, "message " + std::to_string(i) + " is wrong");
      }
    }
  });
}

TEST_CASE("messages: send_recv around a ring does not deadlock at any size", "[comm]") {
  on_all_transports(5, [](Communicator& communicator) {
    const int n = communicator.size(), next = (communicator.rank() + 1) % n,
              previous = (communicator.rank() + n - 1) % n;
    for (const std::size_t count : {0, 1, 1000, 2'000'000}) {
      std::vector<std::int32_t> out(count, communicator.rank()), in(count, -1);
      communicator.send_recv(out.data(), count, next, in.data(), count, previous, DataType::int32);
      expect(in == std::vector<std::int32_t>(count, previous), "wrong data");
    }
  });
}

TEST_CASE("messages: to oneself, and asynchronous ones in any order", "[comm]") {
  on_all_transports(3, [](Communicator& communicator) {
    const int n = communicator.size();
    std::vector<std::vector<std::int32_t>> in(static_cast<std::size_t>(n));
    std::vector<Work> works;
    const std::vector<std::int32_t> out(100'000, communicator.rank());
    for (int peer = 0; peer < n; peer++) {
      auto& buffer = in[static_cast<std::size_t>(peer)];
      buffer.assign(out.size(), -1);
      works.push_back(communicator.recv_async(buffer.data(), buffer.size(), DataType::int32, peer));
    }
    for (int peer = n; peer-- > 0;) communicator.send(std::span<const std::int32_t>(out), peer);
    for (auto& work : works) work.wait();
    for (int peer = 0; peer < n; peer++)
      expect(in[static_cast<std::size_t>(peer)] == std::vector<std::int32_t>(out.size(), peer),
             "wrong data");
  });
}

TEST_CASE("messages: a rank that is done may leave; what it sent is delivered", "[comm]") {
  on_all_transports(2, [](Communicator& communicator) {
    std::vector<std::int32_t> data(10'000, 5);
    if (communicator.rank() == 0) {
      communicator.send(std::span<const std::int32_t>(data), 1);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      std::fill(data.begin(), data.end(), 0);
      communicator.recv(std::span(data), 0);
      expect(data == std::vector<std::int32_t>(10'000, 5), "lost");
    }
  });
}
