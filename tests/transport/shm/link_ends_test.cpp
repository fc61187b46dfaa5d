// SPDX-License-Identifier: Apache-2.0
// How links over shared memory end, and what they leave behind.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <catch2/catch.hpp>
#include <future>
#include <set>
#include <thread>

#include "net/handshake.hpp"
#include "support/effort.hpp"
#include "transport/by_hand.hpp"
#include "transport/pair.hpp"
#include "transport/shm/hand_over.hpp"
#include "transport/shm/link.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace ccoll::testing::hand_over;
using namespace std::chrono_literals;

TEST_CASE("shm: more descriptors than are expected are closed", "[transport]") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const FileDescriptor here(ends[0]), there(ends[1]);
  const auto before = held_now();
  for (const std::size_t count : {4, 5, 16}) {
    std::vector<int> descriptors(count, STDERR_FILENO);
    std::vector<char> room(CMSG_SPACE(count * sizeof(int)));
    iovec part{room.data(), 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* const control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(control), descriptors.data(), count * sizeof(int));
    REQUIRE(sendmsg(here.number(), &message, 0) == 1);
    {
      const auto came = shm::receive_with_descriptors(there.number(), 10);
      REQUIRE(came);
      CHECK(came->bytes.size() == 1);
      CHECK(came->descriptors.size() >= 3);
      CHECK(came->descriptors.size() <= 4);
      std::set<int> numbers;
      for (const auto& each : came->descriptors) CHECK(numbers.insert(each.number()).second);
    }
    CHECK(held_now() == before);
  }
}

TEST_CASE("shm: a receiver that goes before it opens its end, or cannot be rung, fails the link",
          "[transport]") {
  for (const bool leaves : {true, false}) {
    CAPTURE(leaves);
    FalseDoor door;
    Pair pair(shm_kind(), {.before = [&](const auto& table) {
                door.stand_at(shm::door_name(table, 1), [leaves](Speaker& peer) {
                  if (!peer.answer() || !peer.receive()) return;
                  peer.send(verdict(true));
                  if (!leaves) peer.send(doorbell());
                });
              }});
    pair.open_sender();
    // Slices pushed to a rank that leaves are still sent.
    CHECK(eventually(pair, [&] { return pair.sender->has_room(); }));
    REQUIRE(eventually(pair, [&] { return pair.sender->failure() != nullptr; }));
    CHECK(pair.sender->failure()->kind == (leaves ? ErrorKind::peer_lost : ErrorKind::exhausted));
    const std::string expected =
        leaves ? "rank 1 has left" : "0 of its doorbell's 2 descriptors arrived";
    CHECK(pair.sender->failure()->message.find(expected) != std::string::npos);
  }
}

TEST_CASE("shm: a receiver that is open hands its bell over while its thread does something else",
          "[transport]") {
  Pair pair(shm_kind());
  pair.open_receiver();
  pair.open_sender();
  CHECK(eventually(pair, [&] { return pair.sender->connected(); }));
}

TEST_CASE("shm: a bell that comes together with the verdict is heard", "[transport]") {
  const FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const auto doorbells = memory_of(4096, F_SEAL_SHRINK | F_SEAL_GROW);
  auto service = net::Service::shared();
  FalseDoor door;
  Pair pair(shm_kind(), {.before = [&](const auto& table) {
              door.stand_at(shm::door_name(table, 1), [&](Speaker& peer) {
                if (!peer.answer() || !peer.receive()) return;
                std::promise<void> both_sent;
                std::promise<void> busy;
                asio::post(service->context(), [&, sent = both_sent.get_future()]() mutable {
                  busy.set_value();
                  sent.wait();
                });
                busy.get_future().wait();
                peer.send(verdict(true));
                peer.send(doorbell(), std::array{event.number(), doorbells.number()});
                both_sent.set_value();
                (void)peer.receive();  // until the other end has both
              });
            }});
  pair.open_sender();
  CHECK(eventually(pair, [&] { return pair.sender->connected(); }));
  CHECK(pair.sender->has_room());
  CHECK(pair.sender->failure() == nullptr);
  // It is rung once connected, not before.
  CHECK(eventually(pair, [&, rung = std::uint64_t(0)]() mutable {
    return read(event.number(), &rung, sizeof rung) == sizeof rung;
  }));
}

TEST_CASE("shm: what is pushed to a rank that ends at that moment counts as sent",
          "[transport][stress]") {
  const int rounds = by_effort(50, 300, 3000);
  int in_vain = 0;
  for (int round = 0; round < rounds; round++) {
    Pair pair(shm_kind());
    std::thread other([&] { pair.of(1).forget(pair.communicator); });
    pair.open_sender();
    // Messages look in this order: room first, then failure.
    const bool settled = eventually(
        pair, [&] { return pair.sender->has_room() || pair.sender->failure() != nullptr; });
    in_vain += !settled || !pair.sender->has_room();
    other.join();
  }
  CHECK(in_vain == 0);
}

TEST_CASE("shm: links leave nothing behind, wherever they end", "[transport][stress]") {
  Pair pair(shm_kind(), {.next = find_transport("tcp")});
  pair.open();
  CHECK(carries(pair, 20));
  REQUIRE(handed_over(pair));
  pair.sender.reset();
  pair.receiver.reset();
  const auto before = held_now();
  const int rounds = by_effort(5, 30, 300);
  std::uint16_t lane = 1;  // unique per link
  for (int round = 0; round < rounds; round++) {
    pair.open(lane++);
    CHECK(carries(pair, 3));
    pair.open(lane++);  // ends while it is being handed over
    pair.open_sender(lane++);
    CHECK(eventually(pair, [&] { return pair.sender->has_room(); }));
    pair.open_receiver(lane++);  // its sender never comes
    pair.open_sender(lane++);
    pair.sender.reset();
    pair.receiver.reset();
    pair.open_sender(lane);
    pair.sender.reset();
    pair.open_receiver(lane++);
    CHECK(eventually(
        pair, [&] { return !pair.receiver->front() && pair.receiver->failure() != nullptr; }));
    pair.receiver.reset();
  }
  std::this_thread::sleep_for(50ms);  // time for messages in flight
  pair.of(1).forget(pair.communicator);
  CHECK(holds_again(before));
}

TEST_CASE("shm: another user's process is turned away", "[transport]") {
  if (geteuid() != 0) {
    WARN("only root can try to be another user");
    return;
  }
  Pair pair(shm_kind());
  const auto name = shm::door_name(pair.context().table, 1);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(name, address.sun_path);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const auto try_as = [&](uid_t user, int milliseconds) {
    const pid_t child = fork();
    if (child == 0) {  // only one thread of many exists, so only system calls are safe
      if (setresuid(user, user, user) != 0) _exit(3);
      const int stranger = socket(AF_UNIX, SOCK_STREAM, 0);
      if (connect(stranger, reinterpret_cast<const sockaddr*>(&address), size) != 0) _exit(2);
      // Neither says anything: a process of this user may take its time (shm::kPatience), another
      // is rejected at once.
      pollfd wait{stranger, POLLIN, 0};
      char byte;
      _exit(poll(&wait, 1, milliseconds) == 1 && read(stranger, &byte, 1) <= 0 ? 1 : 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  CHECK(try_as(65534, 5000) == 1);
  CHECK(try_as(0, 1000) == 0);
  pair.open();
  CHECK(carries(pair, 10));
}

TEST_CASE("shm: a forked child neither waits at its parent's door nor shuts it", "[transport]") {
  auto pair = std::make_unique<Pair>(shm_kind());
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    pair.reset();
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  pair->open();
  CHECK(carries(*pair, 10));
}
