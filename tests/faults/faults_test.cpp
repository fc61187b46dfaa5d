// SPDX-License-Identifier: Apache-2.0
// Faults that ranks tolerate, faults that they report, and that faults work as specified.
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <catch2/catch.hpp>
#include <cerrno>
#include <future>
#include <latch>

#include "faults/faults.hpp"
#include "net/listener.hpp"
#include "support/held.hpp"
#include "support/ranks.hpp"
#include "system/file_descriptor.hpp"
#include "transport/pair.hpp"
#include "transport/transport.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

/// Ends its faults with the test.
struct Armed {
  explicit Armed(std::string_view plan) : before(faults::counts()) {
    faults::arm(faults::parse(plan), -1);
  }
  ~Armed() { faults::disarm(); }
  Armed(const Armed&) = delete;
  std::uint64_t count(faults::Kind kind) const {
    const auto i = static_cast<std::size_t>(kind);
    return faults::counts()[i] - before[i];
  }
  const std::array<std::uint64_t, faults::kKinds> before;
};

/// Two ends of a TCP connection.
struct Ends {
  Ends() {
    const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener.number(), any, length) == 0);
    REQUIRE(::listen(listener.number(), 1) == 0);
    REQUIRE(::getsockname(listener.number(), any, &length) == 0);
    one = FileDescriptor(::socket(AF_INET, SOCK_STREAM, 0));
    REQUIRE(::connect(one.number(), any, length) == 0);
    other = FileDescriptor(::accept(listener.number(), nullptr, nullptr));
  }
  FileDescriptor one, other;
};

}  // namespace

TEST_CASE("faults: each kind happens and is counted", "[faults]") {
  using faults::Kind;
  const Ends ends;
  const std::string text(100, 'x');
  std::string got(100, ' ');
  const auto send = [&] {
    return ::send(ends.one.number(), text.data(), text.size(), MSG_NOSIGNAL);
  };
  const auto receive = [&] { return ::recv(ends.other.number(), got.data(), got.size(), 0); };
  {
    const Armed armed("short_write=1000");
    const auto sent = send();
    CHECK((sent > 0 && sent < 100));
    CHECK(armed.count(Kind::short_write) == 1);
  }
  REQUIRE(send() == 100);
  {
    const Armed armed("seed=3 short_read=1000");
    CHECK(receive() < 100);
    CHECK(armed.count(Kind::short_read) == 1);
  }
  {
    const Armed armed("interrupted=1000");
    CHECK(receive() == -1);
    CHECK(errno == EINTR);
    CHECK(armed.count(Kind::interrupted) == 1);
  }
  {
    const Armed armed("again=1000");
    CHECK(receive() == -1);
    CHECK(errno == EAGAIN);
    CHECK(armed.count(Kind::again) == 1);
  }
  {
    const Armed armed("exhausted@mmap:2:1");
    void* const first = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(first != MAP_FAILED);
    ::munmap(first, 4096);
    CHECK(::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    CHECK(errno == ENOMEM);
    CHECK(armed.count(Kind::exhausted) == 1);
  }
  {
    const Armed armed("corrupted=1000");
    const auto bytes = receive();
    REQUIRE(bytes > 0);
    got.resize(static_cast<std::size_t>(bytes));
    CHECK(std::ranges::count_if(got, [](char each) { return each != 'x'; }) == 1);
    CHECK(armed.count(Kind::corrupted) == 1);
  }
  {
    const Armed armed("cut@2");
    CHECK(send() == 100);
    CHECK(send() == -1);
    CHECK(errno == ECONNRESET);
    CHECK(armed.count(Kind::cut) == 1);
  }
  got.resize(1000);
  while (receive() > 0) continue;
  CHECK(receive() == 0);  // the other end sees it, too
  CHECK(send() == -1);
}

TEST_CASE("faults: what is no plan is refused", "[faults]") {
  for (const char* const wrong : {"nonsense=1", "short_read=many", "cut@x", "exhausted@nothing:1"})
    CHECK_THROWS_AS(faults::parse(wrong), std::runtime_error);
}

TEST_CASE("faults: calls that fall short, are interrupted or find nothing ready change nothing",
          "[faults]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    const Armed armed("seed=5 short_read=200 short_write=200 interrupted=200 again=200 delayed=10");
    const auto errors = run_ranks(5, options_for(kind.name), [](Communicator& ranks) {
      for (int call = 0; call < 20; call++) {
        std::vector<int> all(20'000, ranks.rank() + call);
        ranks.all_reduce(all);
        expect(all == std::vector<int>(20'000, 10 + 5 * call), "the sum is right");
      }
    });
    for (const auto& error : errors) CHECK(error == "");
    CHECK(armed.count(faults::Kind::interrupted) > 10);
    CHECK(armed.count(faults::Kind::short_read) > 10);
  }
}

TEST_CASE("faults: a hello that the kernel has no memory for is tried again", "[faults]") {
  const auto service = net::Service::shared();
  auto listener = net::Listener::open(service, "", "", [](net::Purpose, net::Stream) {}).value();
  const Armed armed("exhausted@send:1");
  std::promise<Status> outcome;
  const auto connect = [&]() -> asio::awaitable<void> {
    const auto at = "127.0.0.1:" + std::to_string(listener->endpoint().port());
    auto socket = co_await net::connect(service, at, "", net::Purpose::link, 8s, "peer", "");
    outcome.set_value(socket ? Status() : Status(tl::unexpected(socket.error())));
  };
  asio::co_spawn(service->context(), connect(), asio::detached);
  const auto made = outcome.get_future().get();
  CHECK((made ? "" : made.error().message) == "");
  CHECK(armed.count(faults::Kind::exhausted) == 1);
}

TEST_CASE("faults: a socket that cannot be had is soon given up", "[faults]") {
  const auto service = net::Service::shared();
  auto listener = net::Listener::open(service, "", "", [](net::Purpose, net::Stream) {}).value();
  const Armed armed("exhausted@socket:1:1000000");
  std::promise<Status> outcome;
  const auto connect = [&]() -> asio::awaitable<void> {
    const auto at = "127.0.0.1:" + std::to_string(listener->endpoint().port());
    auto socket = co_await net::connect(service, at, "", net::Purpose::link, 60s, "rank 7", "");
    outcome.set_value(socket ? Status() : Status(tl::unexpected(socket.error())));
  };
  const auto began = std::chrono::steady_clock::now();
  asio::co_spawn(service->context(), connect(), asio::detached);
  const auto made = outcome.get_future().get();
  REQUIRE_FALSE(made);
  CHECK(made.error().kind == ErrorKind::exhausted);
  CHECK_THAT(made.error().message, Catch::Contains("rank 7"));
  CHECK(std::chrono::steady_clock::now() - began < 20s);
}

TEST_CASE("faults: a rank that gets no descriptors says which call failed, and leaves nothing",
          "[faults]") {
  const auto alone = Communicator::create(make_inproc_store(), 0, 1);
  const auto before = held_at_rest();
  const auto store = make_inproc_store();
  std::latch is_sent(1), is_refused(1);
  const auto errors = run_threads(2, [&](int rank) {
    auto ranks = Communicator::create(store, rank, 2, options_for("inproc"));
    if (rank == 0) {
      auto part = ranks.duplicate();
      const std::vector<int> seven(1, 7);
      part.send(seven, 1);
      is_sent.count_down();
      is_refused.wait();
    } else {
      is_sent.wait();
      const Armed armed("exhausted@epoll_create1:1");
      const auto error = message_of([&] { ranks.duplicate(); });
      is_refused.count_down();
      expect(error.find("epoll_create1: ") != error.npos, "it says so: " + error);
    }
  });
  for (const auto& error : errors) CHECK(error == "");
  const auto after = held_at_rest();
  CAPTURE(before.text(), after.text());
  CHECK(after.no_more_than(before));
}

TEST_CASE("faults: a rank that could share no memory when it began is not waited for", "[faults]") {
  std::optional<Armed> armed;
  // The fault hits rank 1's first attempt to share memory.
  Pair pair(*find_transport("shm"), {.next = find_transport("tcp"), .before = [&](const auto&) {
                                       armed.emplace("exhausted@ftruncate:2:1");
                                     }});
  CHECK(armed->count(faults::Kind::exhausted) == 1);
  const auto began = std::chrono::steady_clock::now();
  pair.open();
  CHECK(eventually(pair, [&] {
    static_cast<void>(pair.receiver->front());
    return pair.sender->has_room();
  }));
  // The wait for its door would take that long.
  CHECK(std::chrono::steady_clock::now() - began < 3s);
}

TEST_CASE("faults: shared memory that is lacking for a moment is not taken for none", "[faults]") {
  // More than the process has doorbells for at once.
  std::vector<std::shared_ptr<Waiter>> waiters;
  const Armed armed("exhausted@ftruncate:1:1");
  while (armed.count(faults::Kind::exhausted) == 0 && waiters.size() < 1000) {
    auto waiter = Waiter::make();
    if (waiter)
      waiters.push_back(std::move(*waiter));
    else
      CHECK(waiter.error().kind == ErrorKind::exhausted);
  }
  CHECK(armed.count(faults::Kind::exhausted) == 1);
  for (const auto& waiter : waiters) CHECK(waiter->doorbell()->memory().open());
}
