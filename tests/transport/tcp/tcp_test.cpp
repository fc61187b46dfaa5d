// SPDX-License-Identifier: Apache-2.0
// The bytes that a TCP link writes, and how it reads a stream with flipped bits.
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string_view>

#include "core/deadline.hpp"
#include "support/effort.hpp"
#include "support/eventually.hpp"
#include "transport/pair.hpp"
#include "transport/tcp/link.hpp"

namespace ccoll {

using namespace std::chrono_literals;

namespace {

using testing::header;
using testing::pattern;

constexpr const char* kName = "the link";

std::shared_ptr<Delivery<tcp::Connection>> delivered(int socket) {
  auto connection = std::make_shared<Delivery<tcp::Connection>>();
  connection->deliver(tcp::Connection{FileDescriptor(socket)});
  return connection;
}

std::pair<int, int> sockets() {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  return {ends[0], ends[1]};
}

/// The wire format of slices of these sizes, pushed and lent in turn.
std::vector<std::byte> stream_of(const std::vector<std::size_t>& sizes, bool checked) {
  const auto [ours, theirs] = sockets();
  const FileDescriptor wire(theirs);
  tcp::TcpSendLink link(1, delivered(ours), Waiter::make().value(),
                        std::make_shared<tcp::Retries>(0), checked);
  std::vector<std::byte> stream;
  for (std::size_t i = 0; i < sizes.size(); i++) {
    const auto data = pattern(i, sizes[i]);
    if (i % 2 == 0) {
      std::ranges::copy(data, link.room(data.size()));
      link.push(header(i, data.size()));
    } else {
      link.lend(header(i, data.size()), data.data(), Copier::receiver);
    }
    while (!link.drained()) {
      link.progress();
      REQUIRE(link.failure() == nullptr);
      std::array<std::byte, 4096> part;
      for (ssize_t got; (got = recv(wire.number(), part.data(), part.size(), 0)) > 0;)
        stream.insert(stream.end(), part.begin(), part.begin() + got);
    }
  }
  return stream;
}

/// The result of a stream that arrives in pieces: how many slices arrived intact, and then the
/// failure.
struct Outcome {
  std::size_t slices = 0;
  std::optional<Failure> failure;
};

Outcome read_all(const std::vector<std::byte>& stream, const std::vector<std::size_t>& sizes,
                 std::mt19937& random, bool offers) {
  const auto [ours, theirs] = sockets();
  const FileDescriptor wire(theirs);
  tcp::TcpReceiveLink link(0, delivered(ours), Waiter::make().value(), kName);
  std::vector<std::byte> memory(1 << 20);
  Outcome outcome;
  for (std::size_t at = 0; at < stream.size() && link.failure() == nullptr;) {
    const auto part = std::min<std::size_t>(stream.size() - at, 1 + random() % 40'000);
    const auto sent = send(wire.number(), stream.data() + at, part, MSG_NOSIGNAL);
    at += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    while (const auto* peeked = link.peek()) {
      if (offers) link.offer(memory.data(), peeked->bytes);
      const auto* view = link.front();
      if (view == nullptr) break;
      REQUIRE(outcome.slices < sizes.size());
      const auto data = pattern(outcome.slices, sizes[outcome.slices]);
      REQUIRE(view->header.bytes == data.size());
      REQUIRE(view->header.sequence == outcome.slices);
      REQUIRE(view->header.reserved == 0);
      REQUIRE(std::equal(data.begin(), data.end(), view->data));
      REQUIRE(link.pop());
      outcome.slices++;
    }
  }
  if (link.failure() != nullptr) outcome.failure = *link.failure();
  return outcome;
}

std::vector<std::size_t> random_sizes(std::mt19937& random) {
  std::vector<std::size_t> sizes(1 + random() % 8);
  for (auto& size : sizes) size = random() % (random() % 3 == 0 ? 100'000 : 300);
  return sizes;
}

bool has_reno(int fd) {
  char name[16] = {};
  socklen_t length = sizeof name;
  return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 &&
         std::string_view(name) == "reno";
}

/// How many this process has.
std::size_t reno_sockets() {
  std::size_t count = 0;
  for (int fd = 0; fd < 1024; fd++) count += has_reno(fd);
  return count;
}

}  // namespace

TEST_CASE("tcp: a link within a host has Reno, one to another host what the system chooses",
          "[transport][unit]") {
  if (has_reno(FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)).number())) {
    WARN("skipped: all sockets of this system have Reno");
    return;
  }
  const auto before = reno_sockets();
  for (const std::uint64_t other_host : {0, 1}) {
    testing::Pair pair(*find_transport("tcp"), {.hosts = {0, other_host}});
    pair.open();
    REQUIRE(eventually(pair, [&] {
      if (pair.sender->has_room()) pair.sender->push(header(0, 0));
      return pair.sender->connected();
    }));
    CAPTURE(other_host);
    CHECK(reno_sockets() == before + (other_host == 0 ? 1 : 0));
  }
}

TEST_CASE("tcp: a link is connected, and its socket watched, before anyone looks at it",
          "[transport][unit]") {
  const bool receiver_is_late = GENERATE(false, true);
  CAPTURE(receiver_is_late);
  testing::Pair pair(*find_transport("tcp"));
  pair.open_sender();
  const auto is_connected = [](const auto& link) { return link->connected(); };
  if (receiver_is_late) REQUIRE(testing::eventually([&] { return is_connected(pair.sender); }));
  pair.open_receiver();
  REQUIRE(testing::eventually(
      [&] { return is_connected(pair.sender) && is_connected(pair.receiver); }));
  // Until it has seen all that woke it so far.
  auto& waiter = *pair.waiters[1];
  const auto sleeps_out = [&](std::chrono::milliseconds limit) {
    const auto began = Clock::now();
    waiter.sleep(limit);
    return Clock::now() - began >= limit;
  };
  REQUIRE(testing::eventually([&] { return sleeps_out(50ms); }));
  pair.sender->push(header(0, 0));
  CHECK(pair.sender->progress());
  CHECK_FALSE(sleeps_out(20s));
  CHECK(pair.receiver->front() != nullptr);
}

TEST_CASE("tcp: without checksums headers and payloads are all there is on the wire",
          "[transport][unit]") {
  const std::vector<std::size_t> sizes{5, 0, 70'000, 33};
  std::vector<std::byte> expected;
  for (std::size_t i = 0; i < sizes.size(); i++) {
    const auto head = header(i, sizes[i]);
    const auto* bytes = reinterpret_cast<const std::byte*>(&head);
    expected.insert(expected.end(), bytes, bytes + sizeof head);
    const auto data = pattern(i, sizes[i]);
    expected.insert(expected.end(), data.begin(), data.end());
  }
  CHECK(stream_of(sizes, false) == expected);
  CHECK(stream_of(sizes, true).size() == expected.size() + 4 * sizes.size());
}

TEST_CASE("tcp: with checksums a flipped bit is an error that names the slice and the link",
          "[transport][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int draw = 0; draw < testing::by_effort(20, 150, 3000); draw++) {
    const auto sizes = random_sizes(random);
    auto stream = stream_of(sizes, true);
    const bool offers = random() % 2 == 0;
    CAPTURE(seed, draw, offers, sizes.size());
    const auto whole = read_all(stream, sizes, random, offers);
    CHECK((whole.slices == sizes.size() && !whole.failure));

    // Headers are a small part of the stream: half of the flips go there.
    auto slice = random() % sizes.size();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < slice; i++) begin += tcp::kCheckedHeaderBytes + sizes[i];
    const auto length = tcp::kCheckedHeaderBytes + (random() % 2 == 0 ? 0 : sizes[slice]);
    const auto bit = random() % (8 * length);
    stream[begin + bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    CAPTURE(slice, bit);
    const auto flipped = read_all(stream, sizes, random, offers);
    REQUIRE(flipped.failure);
    CHECK(flipped.slices == slice);
    CHECK(flipped.failure->kind == ErrorKind::corrupt);
    const auto what =
        bit / 8 < tcp::kCheckedHeaderBytes ? "header" : std::to_string(sizes[slice]) + " bytes";
    const auto said = fmt::format(
        "the data received over {} are not the data that were sent: slice {}, the checksum of its "
        "{} is ",
        kName, slice, what);
    CAPTURE(flipped.failure->message);
    CHECK(flipped.failure->message.starts_with(said));
  }
}

}  // namespace ccoll
