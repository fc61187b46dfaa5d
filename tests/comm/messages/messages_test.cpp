// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <random>
#include <regex>

#include "comm/on_transports.hpp"
#include "support/eventually.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::eventually;
using testing::expect;
using testing::message_of;
using testing::on_all_transports;
using testing::run_ranks;

namespace {

using Numbers = std::vector<std::int32_t>;

std::span<const std::int32_t> view(const Numbers& numbers) { return numbers; }

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// The waiting time that an error reports; -1 if none.
int waited_ms(const std::string& error) {
  static const std::regex said("timed out after ([0-9]+) ms");
  std::smatch found;
  return std::regex_search(error, found, said) ? std::stoi(found[1]) : -1;
}

}  // namespace

TEST_CASE("messages: tags, receives from anyone, probes and batches as documented", "[comm]") {
  on_all_transports(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    if (rank > 0) {
      communicator.send(view({rank, rank, rank}), 0, 7);
      communicator.send(view({10 * rank}), 0, 8);
      return communicator.barrier();
    }
    // A tag selects its message, whatever arrived before it.
    Numbers one(1), many(100);
    expect(communicator.recv(std::span(one), 2, 8) == Received{2, 8, 1, 4} && one[0] == 20, "8");
    // A probe returns what a receive would get, so that the buffer can be sized to fit.
    const auto waiting = communicator.probe(kAnyRank, 7);
    expect(waiting.tag == 7 && waiting.count == 3 && waiting.bytes == 12, "probe");
    Numbers fitting(waiting.count);
    communicator.recv(std::span(fitting), waiting.from, waiting.tag);
    expect(fitting == Numbers(3, waiting.from), "fitting");
    // A receive from any rank, into a buffer longer than the message.
    const auto got = communicator.recv(std::span(many), kAnyRank, 7);
    expect(got == Received{3 - waiting.from, 7, 3, 12} && many[2] == got.from, "any rank");
    const auto last = communicator.recv(std::span(one), 1, kAnyTag);
    expect(last.tag == 8 && one[0] == 10, "any tag");
    expect(!communicator.try_probe(), "nothing is left");
    communicator.barrier();
  });
}

TEST_CASE("messages: a batch does not deadlock, whatever its order", "[comm]") {
  on_all_transports(3, [](Communicator& communicator) {
    constexpr int kTags = 40;
    constexpr std::size_t kLong = 50'000;
    const int rank = communicator.rank(), next = (rank + 1) % 3, previous = (rank + 2) % 3;
    std::vector<Numbers> out, in(kTags);
    std::vector<MessageRequest> requests;
    for (int tag = 0; tag < kTags; tag++) out.emplace_back(tag % 4 == 0 ? kLong : 10, rank + tag);
    for (int tag = 0; tag < kTags; tag++)
      requests.push_back(MessageRequest::send(view(out[static_cast<std::size_t>(tag)]), next, tag));
    // They are received in reverse order, after all sends here.
    for (int tag = kTags; tag-- > 0;) {
      auto& buffer = in[static_cast<std::size_t>(tag)];
      buffer.resize(kLong);
      requests.push_back(MessageRequest::recv(std::span(buffer), previous, tag));
    }
    const auto received = communicator.batch(requests);
    for (int tag = 0; tag < kTags; tag++) {
      const auto& got = received[static_cast<std::size_t>(kTags - 1 - tag)];
      auto& data = in[static_cast<std::size_t>(tag)];
      data.resize(got.count);
      expect(got.tag == tag && data == Numbers(tag % 4 == 0 ? kLong : 10, previous + tag),
             fmt::format("tag {}", tag));
    }
  });
}

TEST_CASE("messages: one that is too long is refused by name and stays receivable", "[comm]") {
  on_all_transports(2, [](Communicator& communicator) {
    if (communicator.rank() == 0) {
      communicator.send(view(Numbers(100, 1)), 1, 7);
      const std::vector<std::uint8_t> odd(10, 3);
      communicator.send(std::span<const std::uint8_t>(odd), 1, 9);
      return communicator.send(view(Numbers(100'000, 2)), 1, 8);
    }
    Numbers data(100'000);
    const auto refused = [&](std::size_t count, int tag) {
      return error_of([&] { communicator.recv(std::span(data).first(count), 0, tag); });
    };
    // The error is the same whether the receive is posted before or after the message arrives.
    for (int i = 0; i < 2; i++) {
      const auto error = refused(50, 7);
      expect(error == "recv from rank 0 tag 7 on rank 1: the message has 400 bytes, the buffer 200",
             error);
    }
    expect(communicator.recv(std::span(data), 0, 7).count == 100 && data[99] == 1, "the first");
    const auto odd = refused(50, 9);
    expect(odd ==
               "recv from rank 0 tag 9 on rank 1: the message has 10 bytes, which are not whole "
               "elements of int32",
           odd);
    std::vector<std::uint8_t> bytes(10);
    communicator.recv(std::span(bytes), 0, 9);
    const auto error = refused(60'000, 8);
    expect(error ==
               "recv from rank 0 tag 8 on rank 1: the message has 400000 bytes, the buffer 240000",
           error);
    communicator.recv(std::span(data), 0, 8);
    expect(data == Numbers(100'000, 2), "the last");
  });
}

TEST_CASE("messages: strict sends wait for their receive, others do not", "[comm]") {
  for (const bool strict : {false, true}) {
    CommunicatorOptions options;
    options.strict_sends = strict;
    on_all_transports(
        2,
        [strict](Communicator& communicator) {
          Numbers data(10, 4);
          if (communicator.rank() == 0) {
            auto work = communicator.send_async(view(data), 1);
            const auto early = error_of([&] { work.wait(200ms); });
            expect((early == "no error") == !strict, early);
            communicator.barrier();
            work.wait();
          } else {
            communicator.barrier();
            communicator.recv(std::span(data), 0);
          }
        },
        options);
  }
}

TEST_CASE("messages: the queue of a slow receiver is bounded, and nothing is lost", "[comm]") {
  constexpr int kMessages = 3000;
  constexpr std::size_t kInts = 256;
  // 1 MiB holds this many messages of 1024 bytes with an envelope of 128 bytes each.
  constexpr int kFit = (1 << 20) / (1024 + 128);
  for (const auto& kind : testing::usable_transports()) {
    std::atomic<int> sent = 0;
    CommunicatorOptions options;
    options.transport = kind.name;
    options.timeout = 30s;
    const auto errors = run_ranks(2, options, [&](Communicator& communicator) {
      if (communicator.rank() == 0) {
        for (int i = 0; i < kMessages; i++, sent++) communicator.send(view(Numbers(kInts, i)), 1);
        return;
      }
      // Probes for another tag pull all that fits into the queue.
      int before = -1;
      while (before != sent || sent < kFit) {
        before = sent;
        const auto until = std::chrono::steady_clock::now() + 50ms;
        while (std::chrono::steady_clock::now() < until) communicator.try_probe(0, 1);
      }
      expect(sent == kFit, fmt::format("{} were sent, {} fit", sent, kFit));
      Numbers data(kInts);
      for (int i = 0; i < kMessages; i++) {
        communicator.recv(std::span(data), 0);
        expect(data == Numbers(kInts, i), fmt::format("message {}", i));
      }
    });
    CAPTURE(kind.name);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("messages: who waits in vain says for whom, for which tag and how long", "[comm]") {
  const auto errors_of = [](int size, const std::function<void(Communicator&)>& body) {
    std::vector<std::vector<std::string>> all;
    for (const auto& kind : testing::usable_transports()) {
      CommunicatorOptions options;
      options.transport = kind.name;
      options.timeout = 300ms;
      all.push_back(run_ranks(size, options, body));
    }
    return all;
  };
  for (const auto& errors : errors_of(2, [](Communicator& communicator) {
         Numbers numbers(4);
         if (communicator.rank() == 0) communicator.send(view(numbers), 1, 5);
         if (communicator.rank() == 1) communicator.probe(0, 5, {.timeout = 20s, .algorithm = {}});
         communicator.recv(std::span(numbers), 1 - communicator.rank(), 6,
                           {.timeout = communicator.rank() == 1 ? 500ms : 20s, .algorithm = {}});
       })) {
    CHECK_THAT(errors[1], Contains("recv from rank") && Contains("tag 6 (a buffer of 16 bytes)") &&
                              Contains("it waits for rank"));
    CHECK(waited_ms(errors[1]) >= 500);
    CHECK_THAT(errors[1], Contains("others have: rank 0 tag 5 with 16 bytes"));
  }
  // Rank 1 stays until rank 0 has given up: leaving would cause another error.
  std::barrier given_up(2);
  for (const auto& errors : errors_of(2, [&](Communicator& communicator) {
         const Numbers numbers(100'000);
         if (communicator.rank() == 1) return given_up.arrive_and_wait();
         const auto error = error_of([&] { communicator.send(view(numbers), 1, 5); });
         given_up.arrive_and_wait();
         expect(false, error);
       })) {
    static const std::regex said(
        R"(send to rank 1 tag 5 \(400000 bytes\) on rank 0 timed out after (\d+) ms, )"
        R"(announced, but not received, for (\d+) ms; it waits for rank 1)");
    std::smatch found;
    REQUIRE(std::regex_search(errors[0], found, said));
    CHECK(std::stoi(found[2]) <= std::stoi(found[1]));
    CHECK(waited_ms(errors[0]) >= 300);
  }
  // A failed probe breaks nothing.
  for (const auto& errors : errors_of(2, [](Communicator& communicator) {
         const auto error =
             error_of([&] { communicator.probe(kAnyRank, 5, {.timeout = 50ms, .algorithm = {}}); });
         expect(contains(error, "probe from any rank tag 5") && contains(error, "timed out"),
                error);
         communicator.barrier({.timeout = 20s, .algorithm = {}});
       }))
    for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("messages: a receive from those who have left ends and names them", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    for (const int from : {0, kAnyRank}) {
      for (const bool had_sent : {false, true}) {
        if (had_sent && from == kAnyRank) continue;
        CommunicatorOptions options;
        options.transport = kind.name;
        options.timeout = 20s;
        const auto start = std::chrono::steady_clock::now();
        const auto errors = run_ranks(2, options, [&](Communicator& communicator) {
          Numbers data(4);
          if (communicator.rank() == 0 && had_sent) communicator.send(view(data), 1, 1);
          if (communicator.rank() == 0) return;
          if (had_sent) communicator.recv(std::span(data), from, 1);
          communicator.recv(std::span(data), from, 2);
        });
        CAPTURE(kind.name, from, had_sent);
        CHECK(errors[0] == "");
        CHECK_THAT(errors[1],
                   Contains(from == 0 ? "recv from rank 0 tag 2" : "from any rank tag 2"));
        CHECK_THAT(errors[1], Contains("left") || Contains("closed"));
        CHECK(std::chrono::steady_clock::now() - start < 10s);
      }
    }
  }
}

TEST_CASE("messages: a send given up by its rank's leaving fails its receive", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CommunicatorOptions options;
    options.transport = kind.name;
    options.timeout = 20s;
    const Numbers data(100'000);
    std::atomic<bool> has_left = false;
    const auto errors = run_ranks(2, options, [&](Communicator& communicator) {
      if (communicator.rank() == 0) {
        communicator.send_async(view(data), 1, 3);
        communicator.barrier();
        message_of([&] { communicator.close(); });  // it may tell that the send has failed
        has_left = true;
        return;
      }
      communicator.barrier();
      expect(eventually([&] { return has_left.load(); }), "rank 0 does not leave");
      Numbers got(100'000);
      communicator.recv(std::span(got), 0, 3);
    });
    CAPTURE(kind.name);
    CHECK(errors[0] == "");
    CHECK_THAT(errors[1], Contains("recv from rank 0 tag 3"));
    CHECK_THAT(errors[1], Contains("left") || Contains("closed"));
  }
}

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

namespace {

/// One rank's half of `step`, which both draw alike: a message from rank `from` by any kind of send
/// and receive, two that are received in reverse order, an exchange, or a collective with messages
/// beside it.
void mixed_step(Communicator& pair, std::mt19937_64& random, std::int32_t step) {
  const std::size_t most[] = {1, 7, 500, 5'000, 50'000};
  const auto what = random() % 10;
  // If two are received in reverse order, the first has to be eager.
  const auto count = random() % most[random() % (what == 2 ? 4 : 5)];
  const int from = static_cast<int>(random() % 2), peer = 1 - pair.rank();
  const int tag = static_cast<int>(random() % 3);
  const auto how_sent = random() % 3, how_received = random() % 4;
  const Numbers out(count, step);
  Numbers in(count + random() % 2 * 10, -1);
  const auto check = [&](const Received& got, int expected_tag, std::int32_t value) {
    expect(got.from == peer && got.tag == expected_tag && got.count == count,
           fmt::format("step {}: {} from {} tag {}", step, got.count, got.from, got.tag));
    for (std::size_t i = 0; i < in.size(); i++)
      expect(in[i] == (i < count ? value : -1), fmt::format("step {}: wrong data", step));
  };
  Work beside;
  std::int32_t one = 1;
  if (what == 0) beside = pair.all_reduce_async(std::span(&one, 1));
  if (what == 1) {
    check(pair.send_recv(view(out), peer, in, peer, tag), tag, step);
  } else if (what == 2 && pair.rank() == from) {
    pair.send(view(out), peer, 0);
    pair.send(view(Numbers(count, -step)), peer, 1);
  } else if (what == 2) {
    check(pair.recv(in, peer, 1), 1, -step);
    check(pair.recv(in, peer, 0), 0, step);
  } else if (pair.rank() == from) {
    auto work = how_sent == 0 ? Work() : pair.send_async(view(out), peer, tag);
    if (how_sent == 0) pair.send(view(out), peer, tag);
    if (how_sent > 0) work.wait();
  } else if (how_received == 0) {
    auto work = pair.recv_async(in, peer, tag);
    work.wait();
    check(work.received(), tag, step);
  } else {
    check(pair.recv(in, how_received == 1 ? kAnyRank : peer, how_received == 2 ? kAnyTag : tag),
          tag, step);
  }
  if (what != 0) return;
  beside.wait();
  expect(one == 2, "the sum is wrong");
}

}  // namespace

TEST_CASE("messages: short and long ways in any mix match as documented", "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  on_all_transports(2, [seed](Communicator& communicator) {
    std::mt19937_64 random(seed);
    for (std::int32_t step = 1; step <= testing::by_effort(300, 2'000, 20'000); step++)
      mixed_step(communicator, random, step);
  });
}

TEST_CASE("messages: more short ones than there is credit for, and none is lost", "[comm]") {
  on_all_transports(2, [](Communicator& communicator) {
    for (std::int32_t i = 0; i < testing::by_effort(9'000, 20'000, 200'000); i++) {
      std::int32_t got = i;
      if (communicator.rank() == 0)
        communicator.send(std::span<const std::int32_t>(&i, 1), 1);
      else
        communicator.recv(std::span(&got, 1), 0);
      expect(got == i, fmt::format("{} instead of {}", got, i));
    }
  });
}

TEST_CASE("messages: send_recv around a ring does not deadlock at any size", "[comm]") {
  on_all_transports(5, [](Communicator& communicator) {
    const int n = communicator.size(), next = (communicator.rank() + 1) % n,
              previous = (communicator.rank() + n - 1) % n;
    for (const std::size_t count : {0, 1, 1000, 2'000'000}) {
      std::vector<std::int32_t> out(count, communicator.rank()), in(count, -1);
      communicator.send_recv(ConstBlock(out.data(), count, DataType::int32), next,
                             Block(in.data(), count, DataType::int32), previous);
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
      works.push_back(communicator.recv_async(buffer, peer));
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
      testing::be_late(std::chrono::milliseconds(300));
      std::fill(data.begin(), data.end(), 0);
      communicator.recv(std::span(data), 0);
      expect(data == std::vector<std::int32_t>(10'000, 5), "lost");
    }
  });
}
