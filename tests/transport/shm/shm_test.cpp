// SPDX-License-Identifier: Apache-2.0
// How memory is shared between processes, and what happens if that fails.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "net/handshake.hpp"
#include "transport/by_hand.hpp"
#include "transport/pair.hpp"
#include "transport/shm/hand_over.hpp"
#include "transport/shm/link.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace ccoll::testing::hand_over;
using namespace std::chrono_literals;

TEST_CASE(
    "shm: where no memory can be shared both ends use the next transport, and it is said once",
    "[transport]") {
  struct Obstacle {
    const char* name;
    FalseDoor::Script script;
    const char* why;
  };
  const Obstacle obstacles[] = {
      {"nobody listens", {}, "did not finish its start-up"},
      {"closes at once", [](Speaker& peer) { peer.close(); }, "closed the connection"},
      {"another program", [](Speaker& peer) { peer.send("HTTP/1.1 400 Bad Request\r\n\r\n"); },
       "HTTP/1.1"},
      {"cannot map it",
       [](Speaker& peer) {
         if (!peer.answer() || !peer.receive()) return;
         peer.send(verdict(false, "no room for it"));
       },
       "no room for it"},
      {"leaves with the offer",
       [](Speaker& peer) {
         if (peer.answer()) (void)peer.receive();
       },
       "closed the connection"},
      {"answers nonsense",
       [](Speaker& peer) {
         if (!peer.answer() || !peer.receive()) return;
         peer.send("\xff\xff\xff\xff\xff");
       },
       "malformed answer"},
  };
  for (const auto& obstacle : obstacles) {
    CAPTURE(obstacle.name);
    FalseDoor door;
    const Said said;
    {
      Pair pair(
          shm_kind(),
          {.next = find_transport("tcp"), .connect_timeout = 4s, .before = [&](const auto& table) {
             door.stand_at(shm::door_name(table, 1), obstacle.script);
           }});
      std::vector<std::unique_ptr<SendLink>> senders;
      std::vector<std::unique_ptr<ReceiveLink>> receivers;
      for (std::uint16_t lane = 0; lane < 4; lane++) {
        pair.open(lane);
        if (lane < 2) continue;  // two wait for the verdict at once
        CHECK(carries(pair, 50));
        CHECK(pair.sender->connected());
        CHECK(pair.receiver->connected());
        CHECK(pair.sender->drained());
      }
      pair.sender.reset();
      CHECK(eventually(
          pair, [&] { return !pair.receiver->front() && pair.receiver->failure() != nullptr; }));
    }
    CAPTURE(said.text());
    CHECK(said.count("no shared memory with rank 1") == 1);
    CHECK(said.count(obstacle.why) == 1);
    CHECK(said.count("another transport is used") == 1);
  }
}

TEST_CASE("shm: where this rank can make no memory it says with whom it shares none, once",
          "[transport]") {
  /// Files too small for a link, but large enough for messages.
  struct SmallFiles {
    SmallFiles() {
      getrlimit(RLIMIT_FSIZE, &before);
      const rlimit small{1 << 20, before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &small);
    }
    ~SmallFiles() { setrlimit(RLIMIT_FSIZE, &before); }
    rlimit before{};
  };
  const std::string why = "no shared memory with rank 1: shared memory: ftruncate: File too large";
  const Said said;
  Pair pair(shm_kind(), {.next = find_transport("tcp")});
  for (std::uint16_t lane = 0; lane < 2; lane++) {
    pair.open_receiver(lane);
    {
      const SmallFiles limit;
      pair.open_sender(lane);
    }
    CHECK(carries(pair, 20));
  }
  CHECK(said.text() == "ccoll: warning: rank 0: " + why + "; another transport is used\n");

  Pair alone(shm_kind(), {});
  const SmallFiles limit;
  const auto opened = alone.of(0).open_send({alone.communicator, 0, 1, 0}, alone.waiters[0]);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message == why);
}

TEST_CASE("shm: a fresh link has short slices, and its pages are there if it is the job's own",
          "[transport]") {
  constexpr std::size_t kLong = 256 << 10;
  const bool is_own = GENERATE(true, false);
  Pair pair(shm_kind(), {.is_own = is_own});
  pair.open();
  REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
  CHECK(pair.sender->good_bytes(kLong, Copier::sender) == shm::kShortSlotBytes);
  auto* const slot = pair.sender->room(shm::kShortSlotBytes);
  const auto has_pages = [&] {
    std::array<unsigned char, shm::kSlotBytes / 4096> pages{};
    REQUIRE(mincore(slot, shm::kSlotBytes, pages.data()) == 0);
    return std::ranges::all_of(pages, [](auto page) { return (page & 1) != 0; });
  };
  // Kernels before 5.14 make them at the first touch only.
  if (is_own && madvise(slot, 4096, 23) == 0) CHECK(eventually(pair, has_pages));
  if (!is_own) CHECK_FALSE(has_pages());

  for (std::uint64_t number = 0; number < shm::kShortSlices; number++) {
    push(*pair.sender, number, {});
    REQUIRE(eventually(pair, [&] { return pair.receiver->front() != nullptr; }));
    REQUIRE(pair.receiver->begin_read());
    REQUIRE(pair.receiver->pop());
  }
  CHECK(pair.sender->good_bytes(kLong, Copier::sender) == shm::slot_bytes_for(kLong));
}

TEST_CASE("shm: a rank that is slow with its start-up is waited for", "[transport]") {
  // Rank 0 is the pair's; rank 2, whose door opens late, is made by hand.
  Pair pair(shm_kind());
  auto context = pair.context();
  context.table.push_back(testing::loopback(1));
  const auto zero = shm_kind().make(context, nullptr);
  const LinkId id{pair.communicator, 0, 2, 0};
  pair.sender = value_or_throw(zero->open_send(id, pair.waiters[0]));
  // Longer than the wait for a rank that is equally far.
  std::this_thread::sleep_for(4s);
  CHECK(pair.sender->failure() == nullptr);
  context.rank = 2;
  const auto late = shm_kind().make(context, nullptr);
  pair.receiver = value_or_throw(late->open_receive(id, pair.waiters[1]));
  CHECK(carries(pair, 50));
  pair.sender.reset();
  pair.receiver.reset();
}

TEST_CASE("shm: a hello that the peer drops for a newer one is repeated", "[transport]") {
  std::atomic<int> dropped = 0;
  FalseDoor door;
  Pair pair(shm_kind(), {.before = [&](const auto& table) {
              door.stand_at(shm::door_name(table, 1), [&](Speaker& peer) {
                if (dropped++ < 3) return peer.close();
                if (!peer.answer() || !peer.receive()) return;
                peer.send(verdict(false, "no descriptors left"));
              });
            }});
  pair.open();
  REQUIRE(eventually(
      pair, [&] { return !pair.sender->has_room() && pair.sender->failure() != nullptr; }));
  CHECK(pair.sender->failure()->message == "no shared memory with rank 1: no descriptors left");
  CHECK(pair.sender->failure()->kind == ErrorKind::exhausted);
  CHECK(dropped == 4);
}

TEST_CASE("shm: where no other transport may be used the link says why it fails", "[transport]") {
  FalseDoor door;
  const Said said;
  Pair pair(shm_kind(), {.before = [&](const auto& table) {
              door.stand_at(shm::door_name(table, 1), [](Speaker& peer) {
                if (!peer.answer() || !peer.receive()) return;
                peer.send(verdict(false, "no room for it"));
              });
            }});
  pair.open();
  REQUIRE(eventually(pair, [&] {
    CHECK_FALSE(pair.sender->has_room());
    return pair.sender->failure() != nullptr;
  }));
  CHECK(pair.sender->failure()->message == "no shared memory with rank 1: no room for it");
  CHECK(pair.sender->failure()->kind == ErrorKind::exhausted);
  CHECK(pair.sender->failure()->culprit == 1U);
  CHECK(said.count("another transport") == 0);
}

TEST_CASE("shm: who knows another token is refused, and who knows it is served", "[transport]") {
  Pair pair(shm_kind(), {.tokens = {"one", "another"}});
  pair.open();
  REQUIRE(eventually(pair,
                     [&] { return pair.sender->has_room() || pair.sender->failure() != nullptr; }));
  REQUIRE(pair.sender->failure() != nullptr);
  CHECK(pair.sender->failure()->kind == ErrorKind::mismatch);
  CHECK(pair.sender->failure()->message.find("the token differs") != std::string::npos);
  CHECK_FALSE(pair.receiver->connected());
  Speaker friendly;
  REQUIRE_FALSE(friendly.connect(shm::door_name(pair.context().table, 1)));
  CHECK(friendly.greet("another"));
}

TEST_CASE("shm: what strangers say at the door hurts nobody", "[transport]") {
  Pair pair(shm_kind());
  pair.open();
  CHECK(carries(pair, 10));
  REQUIRE(handed_over(pair));
  const auto before = held_now();
  const auto door = shm::door_name(pair.context().table, 1);
  const std::string hello("ccoll\r\n\x01", 8);
  const std::string sayings[] = {
      "",
      "x",
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      hello,
      hello + '\x01',
      hello + std::string(40, '\xff'),
      hello + std::string("\x01\0\x03", 3) + std::string(32, 'n') + std::string(32, 'p'),
      std::string(200'000, 'z')};
  for (const auto& saying : sayings) {
    CAPTURE(saying.substr(0, 60));
    Speaker stranger;
    REQUIRE_FALSE(stranger.connect(door));
    stranger.send(saying);
  }
  // Silent ones, which stay as long as this test.
  std::vector<std::unique_ptr<Speaker>> silent;
  for (int i = 0; i < 20; i++) {
    silent.push_back(std::make_unique<Speaker>());
    REQUIRE_FALSE(silent.back()->connect(door));
  }
  // A peer that has proven the token and sends nonsense.
  const LinkId id{pair.communicator, 0, 1, 77};
  const std::string offers[] = {
      "",
      "short",
      offer_of({id.communicator, 0, 0, 77}),
      offer_of({id.communicator, 2, 1, 77}),
      offer_of(id) + "more",
  };
  for (const auto& offer : offers) {
    CAPTURE(offer);
    Speaker stranger;
    REQUIRE_FALSE(stranger.connect(door));
    REQUIRE(stranger.greet());
    if (offer.empty()) continue;
    stranger.send(offer);
    // It reads whatever has arrived before the connection is closed, or a verdict arrives.
    const auto came = stranger.receive();
    CHECK((!came || came->bytes[0] == '\0'));
  }
  CHECK(carries(pair, 10));
  silent.clear();
  CHECK(holds_again(before));
  pair.open(1);
  CHECK(carries(pair, 10));
}

TEST_CASE("shm: what is offered must be whole, large enough, and of a size that stays",
          "[transport]") {
  Pair pair(shm_kind());
  const auto door = shm::door_name(pair.context().table, 1);
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW;
  constexpr std::size_t kDoorbells = 4096;
  const auto good = memory_of(shm::Ring::kBytes, kSealed);
  const auto small = memory_of(shm::Ring::kBytes - 1, kSealed);
  const auto shrinks = memory_of(shm::Ring::kBytes, F_SEAL_GROW);
  const auto grows = memory_of(shm::Ring::kBytes, F_SEAL_SHRINK);
  const auto doorbells = memory_of(kDoorbells, kSealed);
  const auto shared = memory_of(shm::MulticastSlots::kBytes, kSealed);
  const auto few_shared = memory_of(shm::MulticastSlots::kBytes - 1, kSealed);
  const auto few_doorbells = memory_of(kDoorbells - 64, kSealed);
  const FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const FileDescriptor no_memory(open("/dev/null", O_RDWR | O_CLOEXEC));
  const int m = good.number(), e = event.number(), b = doorbells.number();
  struct Offered {
    std::vector<int> descriptors;
    std::uint32_t cell;
    const char* answer;
    bool has_multicast = false;
  };
  const Offered all[] = {
      {{}, 0, "0 of 3 descriptors reached it"},
      {{m}, 0, "1 of 3 descriptors reached it"},
      {{m, e}, 0, "2 of 3 descriptors reached it"},
      {{small.number(), e, b}, 0, "not what ccoll makes"},
      {{shrinks.number(), e, b}, 0, "not what ccoll makes"},
      {{grows.number(), e, b}, 0, "not what ccoll makes"},
      {{no_memory.number(), e, b}, 0, "not what ccoll makes"},
      {{e, m, b}, 0, "not what ccoll makes"},
      {{m, e, few_doorbells.number()}, 0, "not what ccoll makes"},
      {{m, e, b}, 64, "doorbell 64, which does not exist"},
      {{m, e, b}, 63, ""},
      {{m, e, b}, 0, "3 of 4 descriptors reached it", true},
      {{m, e, b, e}, 0, "not what ccoll makes", true},
      {{m, e, b, few_shared.number()}, 0, "not what ccoll makes", true},
      {{m, e, b, m}, 0, "4 of 3 descriptors reached it"},
      {{m, e, b, shared.number()}, 0, "", true},
  };
  const auto before = held_now();
  std::uint16_t lane = 100;
  for (const auto& offered : all) {
    CAPTURE(offered.answer, offered.cell);
    Speaker sender;
    REQUIRE_FALSE(sender.connect(door));
    REQUIRE(sender.greet());
    sender.send(offer_of({pair.communicator, 0, 1, lane++}, offered.cell, offered.has_multicast),
                offered.descriptors);
    const auto came = sender.receive();
    REQUIRE(came);
    net::Reader reader(came->bytes);
    CHECK(reader.number<std::uint8_t>() == (*offered.answer == '\0' ? 1 : 0));
    CHECK(reader.text().find(offered.answer) != std::string_view::npos);
  }
  // The last one waits for its receiver to be opened, which never happens here.
  pair.of(1).forget(pair.communicator);
  CHECK(holds_again(before));
}
