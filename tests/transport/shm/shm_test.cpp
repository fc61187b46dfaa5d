// SPDX-License-Identifier: Apache-2.0
// How memory is shared between processes, and what happens if that fails.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/use_future.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "core/bytes.hpp"
#include "net/handshake.hpp"
#include "support/effort.hpp"
#include "transport/by_hand.hpp"
#include "transport/pair.hpp"
#include "transport/shm/link.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

const TransportKind& shm_kind() { return *find_transport("shm"); }

/// Captures this process's standard error while it lives.
class Said {
 public:
  Said() : file_(memfd_create("said", MFD_CLOEXEC)), before_(dup(STDERR_FILENO)) {
    dup2(file_.number(), STDERR_FILENO);
  }
  ~Said() { dup2(before_.number(), STDERR_FILENO); }
  std::string text() const {
    std::string all(static_cast<std::size_t>(lseek(file_.number(), 0, SEEK_END)), '\0');
    (void)!pread(file_.number(), all.data(), all.size(), 0);
    return all;
  }
  std::size_t count(std::string_view what) const {
    const auto all = text();
    std::size_t times = 0;
    for (auto at = all.find(what); at != all.npos; at = all.find(what, at + 1)) times++;
    return times;
  }

 private:
  const FileDescriptor file_, before_;
};

/// Sends and receives that many slices of mixed sizes, in order and intact.
bool carries(Pair& pair, std::uint64_t slices) {
  std::uint64_t pushed = 0, popped = 0;
  bool right = true;
  const auto data = [](std::uint64_t number) { return pattern(number, number * 977 % 9001); };
  const bool in_time = eventually(pair, [&] {
    if (pushed < slices && pair.sender->has_room()) {
      push(*pair.sender, pushed, data(pushed));
      pushed++;
    }
    if (const auto* view = pair.receiver->front()) {
      right = right && view->header.sequence == popped && pair.receiver->begin_read() &&
              equals(*view, data(popped)) && pair.receiver->pop();
      popped++;
    }
    return popped == slices;
  });
  return in_time && right && pair.sender->failure() == nullptr;
}

std::string verdict(bool taken, std::string_view why_not = "") {
  return net::Writer().number(std::uint8_t{taken}).text(why_not).take();
}

/// A sender's message after the greeting.
std::string offer_of(const LinkId& id, std::uint32_t cell = 0, bool has_multicast = false,
                     const shm::ProcessMark& mark = {}) {
  return net::Writer()
      .number(id.communicator)
      .number(id.from)
      .number(id.to)
      .number(id.lane)
      .number(cell)
      .number(std::uint8_t{has_multicast})
      .number(mark.address)
      .number(mark.value)
      .take();
}

/// A receiver's message once it has opened its end.
std::string doorbell(std::uint32_t cell = 0) { return net::Writer().number(cell).take(); }

FileDescriptor memory_of(std::size_t bytes, int seals) {
  FileDescriptor file(memfd_create("offered", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  CCOLL_CHECK(ftruncate(file.number(), static_cast<off_t>(bytes)) == 0, "{}", errno);
  CCOLL_CHECK(fcntl(file.number(), F_ADD_SEALS, seals) == 0, "{}", errno);
  return file;
}

struct Held {
  std::ptrdiff_t descriptors = 0;
  std::size_t links = 0;  ///< mappings
  friend bool operator==(const Held&, const Held&) = default;
};
Held held_now() {
  Held held;
  const std::filesystem::directory_iterator open("/proc/self/fd");
  held.descriptors = std::distance(begin(open), end(open));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    held.links += line.find("memfd:ccoll-link") != line.npos;
  return held;
}
/// Both ends have each other's doorbell, and the service thread has closed the hand-over's socket.
bool handed_over(Pair& pair) {
  const bool connected =
      eventually(pair, [&] { return pair.sender->connected() && pair.receiver->connected(); });
  std::promise<void> idle;
  asio::post(pair.context().service->context(), [&] { idle.set_value(); });
  idle.get_future().wait();
  return connected;
}
/// Polls, because the service thread releases resources a little later.
bool holds_again(const Held& before) {
  for (int tries = 0; tries < 500; tries++) {
    if (held_now() == before) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

}  // namespace

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

namespace {

/// A link whose sender is this test, which may write anything into the memory.
class LinkByHand {
 public:
  explicit LinkByHand(Pair& pair, const shm::ProcessMark& mark = {}) {
    REQUIRE_FALSE(sender_.connect(shm::door_name(pair.context().table, 1)));
    REQUIRE(sender_.greet());
    sender_.send(offer_of({pair.communicator, 0, 1, 0}, 0, false, mark),
                 std::array{memory_.number(), event_.number(), doorbells_.number()});
    REQUIRE(sender_.receive());
    pair.open_receiver();
    mapped_ = static_cast<std::byte*>(
        mmap(nullptr, shm::Ring::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.number(), 0));
    REQUIRE(mapped_ != MAP_FAILED);
  }
  ~LinkByHand() { munmap(mapped_, shm::Ring::kBytes); }
  LinkByHand(const LinkByHand&) = delete;
  LinkByHand& operator=(const LinkByHand&) = delete;

  shm::Ring& ring() { return *shm::Ring::at(mapped_); }
  /// The n-th slice, in the n-th slot if it needs one.
  shm::Ring::Line& push(std::uint32_t number, std::uint32_t bytes) {
    return push(number, bytes, {number, 0, 0});
  }
  shm::Ring::Line& push(std::uint32_t number, std::uint32_t bytes, const shm::Ring::Place& place) {
    auto& line = ring().lines[number];
    line.set({number, {}, bytes, 0});
    if (!shm::Ring::Line::holds(bytes)) line.place = place;
    line.stamp.store(number + 1);
    return line;
  }

 private:
  const FileDescriptor memory_ = memory_of(shm::Ring::kBytes, F_SEAL_SHRINK | F_SEAL_GROW);
  const FileDescriptor doorbells_ = memory_of(4096, F_SEAL_SHRINK | F_SEAL_GROW);
  const FileDescriptor event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Speaker sender_;
  std::byte* mapped_ = nullptr;
};

}  // namespace

TEST_CASE("shm: a slice that says it is longer than its slot fails the link", "[transport]") {
  Pair pair(shm_kind());
  LinkByHand link(pair);
  link.push(0, shm::kSlotBytes + 1);
  CHECK(eventually(pair, [&] {
    return pair.receiver->front() == nullptr && pair.receiver->failure() != nullptr;
  }));
  CHECK(pair.receiver->failure()->kind == ErrorKind::corrupt);
  CHECK(pair.receiver->failure()->message ==
        "rank 0 sent a slice of 131073 bytes over shared memory; at most 131072 are allowed");
}

TEST_CASE("shm: who does not fetch does not read a sender's memory, nor more than a slot unasked",
          "[transport]") {
  const bool fetches = GENERATE(true, false);
  CAPTURE(fetches);
  Pair pair(shm_kind());
  const auto data = pattern(1, shm::kSlotBytes + 1);
  LinkByHand link(pair, fetches ? shm::process_mark() : shm::ProcessMark{});
  link.push(0, fetches ? shm::kSlotBytes + 1 : 1000,
            {shm::Ring::kUnmapped, 0, reinterpret_cast<std::uintptr_t>(data.data())});
  CHECK(eventually(pair, [&] {
    return pair.receiver->front() == nullptr && pair.receiver->failure() != nullptr;
  }));
  CHECK(link.ring().fetches.load() == (fetches ? 1 : 0));
  CHECK(pair.receiver->failure()->kind == ErrorKind::corrupt);
  CHECK(pair.receiver->failure()->message.find(
            fetches ? "rank 0 sent a slice of 131073 bytes"
                    : "rank 0 sent a slice to be read from its own memory, which this rank had not "
                      "asked for") == 0);
}

TEST_CASE("shm: what a slice has said of itself when it was looked at, it cannot take back",
          "[transport]") {
  Pair pair(shm_kind());
  LinkByHand link(pair);
  auto& receiver = *pair.receiver;
  constexpr std::array<std::uint32_t, 3> kSizes = {8, 1000, shm::kSlotBytes};
  for (std::uint32_t number = 0; number < 2 * kSizes.size(); number++) {
    const auto bytes = kSizes[number / 2];
    const bool peeks = number % 2 == 0;
    CAPTURE(bytes, peeks);
    auto& line = link.push(number, bytes);
    const ReceiveLink::View* view = nullptr;
    const SliceHeader* header = nullptr;
    CHECK(eventually(pair, [&] {
      if (peeks) return (header = receiver.peek()) != nullptr;
      return (view = receiver.front()) != nullptr;
    }));
    const auto* const data = view == nullptr ? nullptr : view->data;
    if (data == nullptr && !shm::Ring::Line::holds(bytes))
      line.place.slot = number + shm::Ring::kLines;  // the ring has no such slot
    line.bytes = bytes == 8 ? UINT32_MAX : 8;
    line.sequence = 77;
    if (data != nullptr && bytes > 8) line.place = {shm::Ring::kLent, 5, UINT64_MAX};

    view = receiver.front();
    REQUIRE(view != nullptr);
    CHECK(view->header.bytes == bytes);
    CHECK(view->header.sequence == number);
    if (header != nullptr) CHECK(header->bytes == bytes);
    if (data != nullptr) CHECK(view->data == data);
    CHECK(receiver.begin_read());
    CHECK(link.ring().reading.load() == 0);
    CHECK(receiver.pop());
    // Slots are returned at once, lines in batches.
    if (bytes > 8) CHECK(link.ring().popped.load() == number + 1);
  }
  CHECK(receiver.failure() == nullptr);
}

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

TEST_CASE("shm: a slice for several is written once, and stays until all have read it",
          "[transport][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Pair pair(shm_kind(), {.others = 1});
  struct Way {
    std::unique_ptr<SendLink> sender;
    std::unique_ptr<ReceiveLink> receiver;
    std::uint64_t popped = 0;
  };
  std::array<Way, 3> ways;
  for (std::uint16_t lane = 0; lane < ways.size(); lane++) {
    pair.open(lane);
    ways[lane] = {std::move(pair.sender), std::move(pair.receiver), 0};
    REQUIRE(eventually(pair, [&] { return ways[lane].sender->has_room(); }));
  }
  auto& first = *ways[0].sender;
  CHECK(first.shared_room(nullptr, 100) == nullptr);
  CHECK(first.shared_room(nullptr, shm::kSlotBytes + 1) == nullptr);
  std::vector<std::byte> own(4096);
  CHECK_FALSE(first.push_shared(header(0, 4096), own.data()));

  const auto slices = static_cast<std::uint64_t>(by_effort(300, 2000, 20'000));
  std::vector<std::vector<std::byte>> sent;
  std::uint64_t shared_slices = 0;
  bool right = true;
  const auto step = [&] {
    const bool room = std::ranges::all_of(ways, [](auto& way) { return way.sender->has_room(); });
    if (room && sent.size() < slices && random() % 2) {
      const auto number = sent.size(), bytes = 1024 + random() % 60'000;
      sent.push_back(pattern(number, bytes));
      auto* const shared = first.shared_room(nullptr, bytes);
      shared_slices += shared != nullptr;
      if (shared != nullptr) std::ranges::copy(sent.back(), shared);
      for (auto& way : ways) {
        if (shared != nullptr && way.sender->push_shared(header(number, bytes), shared)) continue;
        push(*way.sender, number, sent.back());
      }
    }
    auto& way = ways[random() % ways.size()];
    if (const auto* view = way.receiver->front()) {
      right = right && view->header.sequence == way.popped && equals(*view, sent[way.popped]) &&
              way.receiver->begin_read() && way.receiver->pop();
      way.popped++;
    }
  };
  REQUIRE(eventually(pair, [&] {
    // Each look yields the processor, and many threads may want it.
    for (int steps = 0; steps < 100 && right; steps++) step();
    return !right || std::ranges::all_of(ways, [&](auto& w) { return w.popped == slices; });
  }));
  CHECK(right);
  // Most are shared: there are as many shared slots as a ring has lines.
  CHECK(shared_slices > slices / 2);
}

TEST_CASE("shm: a sender is far ahead where ranks outnumber cores, and of short messages",
          "[transport]") {
  const std::vector<std::byte> data(20'000);
  // By how many slices it gets ahead of a reader that takes one whenever there is no room.
  const auto ahead = [&](Pair& pair, std::uint32_t& under_way,
                         std::uint64_t turns = 2 * shm::Ring::kLines) {
    const auto fill = [&] {
      for (; pair.sender->has_room(); under_way++) push(*pair.sender, 0, data);
    };
    for (std::uint64_t turn = 0; turn < turns; turn++, under_way--) {
      fill();
      REQUIRE(pair.receiver->front() != nullptr);
      REQUIRE(pair.receiver->begin_read());
      REQUIRE(pair.receiver->pop());
    }
    fill();
    return under_way;
  };
  for (const bool oversubscribed : {false, true}) {
    CAPTURE(oversubscribed);
    Pair pair(shm_kind(), {.oversubscribed = oversubscribed});
    pair.open();
    REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
    std::uint32_t under_way = 0;
    // Not before the link has been used for a while.
    CHECK(ahead(pair, under_way) == kLinkSlots);
    const auto few = oversubscribed ? shm::Ring::kLines : kLinkSlots;
    CHECK(ahead(pair, under_way, shm::kSlicesBeforeGrowth) == few);
    CHECK(ahead(pair, under_way) == few);
    pair.sender->announce(nullptr, 1 << 20);
    CHECK(ahead(pair, under_way) == shm::Ring::kLines);
    pair.sender->announce(nullptr, 64 << 20);
    CHECK(ahead(pair, under_way) == few);
  }
}

TEST_CASE("shm: two ranks have no shared slots", "[transport]") {
  Pair pair(shm_kind());
  pair.open();
  REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
  CHECK(pair.sender->shared_room(nullptr, 4096) == nullptr);
}
