// SPDX-License-Identifier: Apache-2.0
// Sends that fail for lack of kernel memory (ENOBUFS, ENOMEM), and connections that the kernel
// cannot watch for that reason. On control connections they are retried, and no rank is taken for
// lost; on data connections they end the call on all ranks.
#include <catch2/catch.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "faults/faults.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

void arm(const std::string& plan) { faults::arm(faults::parse(plan), -1); }

std::uint64_t exhausted() {
  return faults::counts()[static_cast<std::size_t>(faults::Kind::exhausted)];
}

}  // namespace

TEST_CASE("faults: a send of data for which there are no buffers ends the call on all ranks",
          "[faults]") {
  for (const int number : {1, 2, 7}) {
    auto ranks = Communicator::create_all(3, options_for("tcp"));
    run_threads(3, [&](int rank) { ranks[static_cast<std::size_t>(rank)].barrier(); });
    const auto before = exhausted();
    const auto start = std::chrono::steady_clock::now();
    arm("exhausted@sendmsg:" + std::to_string(number));
    const auto errors = run_threads(3, [&](int rank) {
      std::vector<float> data(100'000, 1);
      const auto got = message_of([&] {
        while (std::chrono::steady_clock::now() - start < 10s)
          ranks[static_cast<std::size_t>(rank)].all_reduce(data);
      });
      throw std::runtime_error(got);
    });
    faults::disarm();
    CHECK(exhausted() == before + 1);
    CHECK(std::chrono::steady_clock::now() - start < 5s);
    for (const auto& error : errors) {
      CAPTURE(number, error);
      CHECK_THAT(error, Contains("exhausted: ") && Contains(" failed: ") &&
                            Contains("the connection to rank "));
      CHECK((error.find("No buffer space available") != error.npos ||
             error.find("Cannot allocate memory") != error.npos));
      // All name the same rank.
      const auto culprit = errors[0].substr(errors[0].find("rank "), 6);
      CHECK_THAT(error, Contains(culprit + " failed: "));
    }
    // No rank is lost.
    const auto after = run_threads(3, [&](int rank) {
      auto next = ranks[static_cast<std::size_t>(rank)].shrink();
      expect(next.size() == 3, "all are left");
      next.barrier();
    });
    for (const auto& error : after) CHECK(error == "");
  }
}

TEST_CASE("faults: a message whose link cannot be made ends on both ranks", "[faults]") {
  const std::pair<std::string, int> faults_there[] = {{"epoll_ctl", 1}, {"send", 1}, {"send", 3}};
  int failed = 0;
  for (int trial = 0; trial < 36; trial++) {
    const auto& [call, times] = faults_there[trial % 3];
    const int number = 1 + trial / 3;
    auto job = Communicator::create_all(2, options_for("tcp", 20s));
    // The job opens its own links while it starts, and has all of them once messages have come
    // through. A duplicate opens its links when it needs them.
    std::vector<std::optional<Communicator>> ranks(2);
    const auto made = run_threads(2, [&](int rank) {
      auto& own = job[static_cast<std::size_t>(rank)];
      const std::vector<float> out(100'000);
      std::vector<float> in(100'000);
      own.send_recv(out, 1 - rank, std::span(in), 1 - rank);
      ranks[static_cast<std::size_t>(rank)] = own.duplicate();
    });
    for (const auto& error : made) REQUIRE(error == "");
    const auto start = std::chrono::steady_clock::now();
    arm("exhausted@" + call + ":" + std::to_string(number) + ":" + std::to_string(times));
    const auto errors = run_threads(2, [&](int rank) {
      auto& own = *ranks[static_cast<std::size_t>(rank)];
      // Part of it is sent after the receiver's clear to send.
      std::vector<float> data(100'000, static_cast<float>(rank));
      throw std::runtime_error(message_of([&] {
        if (rank == 0)
          own.send(data, 1);
        else
          own.recv(std::span(data), 0);
        expect(data[99'999] == 0, "what was sent is received");
      }));
    });
    faults::disarm();
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    for (const auto& error : errors) {
      CAPTURE(call, times, number, error);
      // A rank that cannot answer closes the connection, which is all that its peer sees.
      const bool fails = error.starts_with("exhausted: ") || error.starts_with("peer_lost: ");
      CHECK((fails || error == "no error"));
      failed += fails ? 1 : 0;
    }
    const auto after = run_threads(2, [&](int rank) {
      auto next = ranks[static_cast<std::size_t>(rank)]->shrink();
      expect(next.size() == 2, "both are left");
      next.barrier();
    });
    for (const auto& error : after) CHECK(error == "");
  }
  CHECK(failed > 0);
}

TEST_CASE("faults: a start-up in which a send has no buffers goes on at once", "[faults]") {
  for (int number = 1; number <= 40; number++) {
    const auto before = exhausted();
    const auto start = std::chrono::steady_clock::now();
    arm("exhausted@send:" + std::to_string(number));
    auto ranks = Communicator::create_all(4, options_for("inproc"));
    faults::disarm();
    CAPTURE(number);
    CHECK(std::chrono::steady_clock::now() - start < 5s);
    const auto errors =
        run_threads(4, [&](int rank) { ranks[static_cast<std::size_t>(rank)].barrier(); });
    for (const auto& error : errors) CHECK(error == "");
    if (exhausted() == before) break;  // it makes no more of these calls
  }
}

TEST_CASE("faults: a send of control for which there are no buffers is made later", "[faults]") {
  for (const int times : {1, 5}) {
    auto ranks = Communicator::create_all(3, options_for("inproc"));
    const auto before = exhausted();
    // The sends are the mismatch and control's messages about it.
    arm("exhausted@send:1:" + std::to_string(times));
    const auto errors = run_threads(3, [&](int rank) {
      auto& own = ranks[static_cast<std::size_t>(rank)];
      std::vector<float> data(10, 1);
      throw std::runtime_error(message_of([&] {
        if (rank == 1)
          own.barrier();
        else
          own.all_reduce(data);
      }));
    });
    faults::disarm();
    CHECK(exhausted() > before);
    for (const auto& error : errors) {
      CAPTURE(times, error);
      CHECK_THAT(error, Contains("mismatch: ") && Contains("rank 1 barrier"));
    }
    const auto after = run_threads(3, [&](int rank) {
      auto next = ranks[static_cast<std::size_t>(rank)].shrink();
      expect(next.size() == 3, "all are left");
    });
    for (const auto& error : after) CHECK(error == "");
  }
}

TEST_CASE("faults: control goes on as soon as there are buffers again", "[faults]") {
  auto options = options_for("inproc");
  options.heartbeat = 0ms;  // no other message can wake a connection
  auto ranks = Communicator::create_all(2, options);
  run_threads(2, [&](int rank) { ranks[static_cast<std::size_t>(rank)].barrier(); });
  const auto before = exhausted();
  const auto start = std::chrono::steady_clock::now();
  constexpr int kTimes = 15;
  arm("exhausted@send:1:" + std::to_string(kTimes));
  const auto errors = run_threads(2, [&](int rank) {
    auto& own = ranks[static_cast<std::size_t>(rank)];
    if (rank == 0) return own.abort("enough");
    throw std::runtime_error(message_of([&] { own.barrier(); }));
  });
  faults::disarm();
  CHECK(exhausted() == before + kTimes);
  CHECK_THAT(errors[1], Contains("aborted: ") && Contains("enough"));
  CHECK(std::chrono::steady_clock::now() - start < 10s);
}
