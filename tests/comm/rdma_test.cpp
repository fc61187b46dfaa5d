// SPDX-License-Identifier: Apache-2.0
// Communicators over RDMA, on the in-memory device of tests/rdma: all ranks report one's failure.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "rdma/faults.hpp"
#include "support/ranks.hpp"

namespace ccoll {
namespace {

using testing::expect;
namespace rdma = testing::rdma;

CommunicatorOptions over_rdma(bool checksum = false) {
  auto options = testing::options_for("verbs");
  options.checksum = checksum;
  return options;
}

/// Makes exact sums until an error, and returns its text.
std::string sum_until_error(Communicator& world, std::size_t count,
                            const std::function<void()>& harm) {
  std::vector<std::int32_t> in(count, 1), out(count);
  return testing::message_of([&] {
    for (int i = 0; i < 2000; i++) {
      if (i == 3 && world.rank() == 0) harm();
      world.all_reduce(ConstBlock(in.data(), count, DataType::int32),
                       Block(out.data(), count, DataType::int32));
      expect(std::ranges::all_of(out, [&](auto sum) { return sum == world.size(); }), "wrong sums");
    }
  });
}

void expect_in(const std::string& error, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    expect(error.find(part) != error.npos, std::string("no '") + part + "' in: " + error);
}

/// The link of two ranks becomes corrupt: rank 0 finds that in its next operation, and rank 1,
/// which waits for it, hears of it.
void find_corrupt(const std::function<void(Communicator&)>& find) {
  std::atomic<bool> harmed = false;
  const auto errors = testing::run_ranks(2, over_rdma(), [&](Communicator& world) {
    std::int32_t value = 0;
    if (world.rank() == 0) {
      world.recv(Block(&value, 1, DataType::int32), 1);
      rdma::complete_with(IBV_WC_REM_ACCESS_ERR, rdma::Of::receives);
      harmed = true;
      return find(world);
    }
    world.send(ConstBlock(&value, 1, DataType::int32), 0);
    while (!harmed) std::this_thread::yield();
    expect_in(testing::message_of([&] {
                world.send(ConstBlock(&value, 1, DataType::int32), 0);
                world.recv(Block(&value, 1, DataType::int32), 0);
              }),
              {"corrupt: ", "RDMA from fake0 port 1 to rank "});
  });
  rdma::reset();
  for (const auto& error : errors) CHECK(error == "");
}

}  // namespace

TEST_CASE(
    "rdma: what a completion says on one rank ends the calls of all, and those go on after "
    "shrink()",
    "[comm][verbs]") {
  // The device reports an access error; other errors differ only in wording (errors_test).
  const auto status = GENERATE(IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_PROT_ERR,
                               IBV_WC_GENERAL_ERR);
  const auto of = GENERATE(rdma::Of::sends, rdma::Of::receives);
  CAPTURE(status, of == rdma::Of::sends);
  const auto errors = testing::run_ranks(3, over_rdma(), [&](Communicator& world) {
    const auto error = sum_until_error(world, 20'000, [&] { rdma::complete_with(status, of); });
    const auto said = "status " + std::to_string(status) + ",";
    expect_in(error, {"RDMA from fake0 port 1 to rank ", said.c_str()});
    auto rest = world.shrink();
    expect(rest.size() == world.size(), "somebody was lost");
    std::int32_t one = 1, sum = 0;
    rest.all_reduce(ConstBlock(&one, 1, DataType::int32), Block(&sum, 1, DataType::int32));
    expect(sum == rest.size(), "a wrong sum after shrink()");
  });
  rdma::reset();
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("rdma: who only looks for messages is told of a corrupt link as the others are",
          "[comm][verbs]") {
  find_corrupt([](Communicator& world) {
    const auto look = [&] {
      while (!world.try_probe(1)) std::this_thread::yield();
    };
    const auto first = testing::message_of(look);
    expect_in(first, {"corrupt: ", "RDMA from fake0 port 1 to rank "});
    const auto behind_kind = first.find(' ') + 1;
    const auto broken = first.substr(0, behind_kind) +
                        "an earlier failure broke the communicator: " + first.substr(behind_kind);
    expect_in(testing::message_of(look), {broken.c_str()});
  });
}

TEST_CASE("rdma: who closes when a link has just been found corrupt says so, and tells the others",
          "[comm][verbs]") {
  find_corrupt([](Communicator& world) {
    while (!rdma::have_befallen()) world.try_probe(1);
    expect_in(testing::message_of([&] { world.close(); }),
              {"corrupt: ", "RDMA from fake0 port 1 to rank "});
  });
}

TEST_CASE("rdma: a call whose time is over when a link has been found corrupt tells of that",
          "[comm][verbs]") {
  find_corrupt([](Communicator& world) {
    while (!rdma::have_befallen()) world.try_probe(1);
    CallOptions soon;
    soon.timeout = std::chrono::milliseconds(1);
    std::int32_t value = 0;
    expect_in(
        testing::message_of([&] { world.recv(Block(&value, 1, DataType::int32), 1, 0, soon); }),
        {"corrupt: ", "RDMA from fake0 port 1 to rank "});
  });
}

TEST_CASE("rdma: a bit that flips under way ends the calls of all ranks, and names the link",
          "[comm][verbs]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int draw = 0; draw < 10; draw++) {
    const int size = 2 + static_cast<int>(random() % 3);
    const std::size_t count = 1 + random() % (draw % 2 == 0 ? 8 : 100'000);
    CAPTURE(seed, draw, size, count);
    const auto bit = random();
    const auto errors = testing::run_ranks(size, over_rdma(true), [&](Communicator& world) {
      const auto error = sum_until_error(world, count, [&] { rdma::flip(bit); });
      expect_in(error, {"corrupt: ", "the data received over the RDMA link from rank ", " to rank ",
                        ", lane ", ", are not the data that were sent: slice "});
    });
    rdma::reset();
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("rdma: ranks that send to each other at once, of registered memory or not, get it all",
          "[comm][verbs]") {
  const bool is_registered = GENERATE(false, true);
  const auto sends = rdma::times_called(rdma::Call::post_send);
  CAPTURE(is_registered);
  const auto errors = testing::run_ranks(3, over_rdma(true), [&](Communicator& world) {
    constexpr std::size_t kCount = 300'000;
    Memory memory;
    std::vector<std::int32_t> ordinary(is_registered ? 0 : 2 * kCount);
    if (is_registered) memory = allocate(2 * kCount * sizeof(std::int32_t));
    const std::span<std::int32_t> all = is_registered ? memory.as<std::int32_t>() : ordinary;
    const auto out = all.first(kCount), in = all.subspan(kCount);
    for (int round = 0; round < 20; round++) {
      const int ahead = 1 + round % 2;
      const int to = (world.rank() + ahead) % 3, from = (world.rank() + 3 - ahead) % 3;
      std::ranges::fill(out, 100 * round + world.rank());
      world.send_recv(out, to, in, from);
      expect(std::ranges::all_of(in, [&](auto each) { return each == 100 * round + from; }),
             "another message");
      world.broadcast(out, round % 3);
      expect(std::ranges::all_of(out, [&](auto each) { return each == 100 * round + round % 3; }),
             "another broadcast");
    }
  });
  for (const auto& error : errors) CHECK(error == "");
  CHECK(rdma::times_called(rdma::Call::post_send) > sends);
}

}  // namespace ccoll
