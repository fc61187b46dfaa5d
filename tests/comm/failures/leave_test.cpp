// SPDX-License-Identifier: Apache-2.0
// A rank that leaves while it is idle disturbs nobody; one with work pending ends it everywhere.
#include <catch2/catch.hpp>
#include <latch>
#include <thread>

#include "comm/on_transports.hpp"
#include "support/asleep.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::expect;
using testing::message_of;
using testing::on_all_transports;
using testing::options_for;
using testing::run_ranks;

namespace {

using Clock = std::chrono::steady_clock;

void exchange(Communicator& communicator, int times) {
  const int other = 1 - communicator.rank();
  for (int i = 0; i < times; i++) {
    std::int32_t out = i, in = -1;
    communicator.send_recv(std::span(&out, 1), other, std::span(&in, 1), other);
    expect(in == i, "a message is wrong");
  }
}

void barrier_names(Communicator& communicator, int leaver) {
  const auto text = message_of([&] { communicator.barrier(); });
  expect(
      text.starts_with("peer_lost: ") && text.find("rank " + std::to_string(leaver)) != text.npos,
      text);
}

}  // namespace

TEST_CASE("leave: the others go on among themselves until a call needs who has gone", "[comm]") {
  const bool is_copy = GENERATE(false, true);
  CAPTURE(is_copy);
  on_all_transports(3, [&](Communicator& world) {
    auto copy = world.duplicate();
    auto& used = is_copy ? copy : world;
    used.barrier();
    if (used.rank() == 2) {
      const auto began = Clock::now();
      used.leave("not to be read");
      expect(Clock::now() - began < 5s, "it waits for long");
      expect(message_of([&] { used.barrier(); }) ==
                 "aborted: the communicator was closed, or moved from",
             "it is there");
      used.leave();
      if (is_copy) world.barrier();
      return;
    }
    for (int round = 0; round < 30; round++) {
      exchange(used, 5);
      testing::leave_time(50ms);  // for the goodbye to do harm
    }
    expect(used.error().empty(), used.error());
    if (is_copy) world.barrier();
    barrier_names(used, 2);
  });
}

TEST_CASE("leave: what is under way ends on every rank, with the reason", "[comm]") {
  const bool is_message = GENERATE(false, true);
  CAPTURE(is_message);
  // A rank that is still in the barrier would get the error there.
  std::latch begun(3);
  const auto errors = run_ranks(3, options_for("inproc"), [&](Communicator& world) {
    world.barrier();
    std::int32_t value = 0;
    if (world.rank() == 2) {
      auto work = is_message ? world.recv_async(std::span(&value, 1), 1, 5)
                             : world.all_reduce_async(std::span(&value, 1));
      begun.arrive_and_wait();
      world.leave("no more");
      const auto text = message_of([&] { work.wait(); });
      expect(text == "aborted: rank 2 aborted: no more", text);
    } else {
      begun.arrive_and_wait();
      const auto text = message_of([&] { world.recv(std::span(&value, 1), 1 - world.rank(), 9); });
      expect(text.starts_with("aborted: ") && text.ends_with("rank 2 aborted: no more"), text);
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("leave: while another thread is in a call of it", "[comm]") {
  testing::Sleeper in_barrier, in_recv;
  const auto errors = run_ranks(2, options_for("inproc"), [&](Communicator& world) {
    world.barrier();
    std::string text;
    std::jthread other;
    if (world.rank() == 0)
      other = std::jthread([&] {
        in_barrier.is_this_thread();
        text = message_of([&] { world.barrier(); });
      });
    if (world.rank() == 1) {
      in_recv.is_this_thread();
      text = message_of([&] {
        std::int32_t value = 0;
        world.recv(std::span(&value, 1), 0);
      });
    } else {
      const bool sleep = in_barrier.sleeps() && in_recv.sleeps();
      world.leave("enough");
      other.join();
      expect(sleep, "a call does not wait");
    }
    expect(text == "aborted: rank 0 aborted: enough", text);
  });
  for (const auto& error : errors) CHECK(error == "");
}
