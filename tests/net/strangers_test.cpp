// SPDX-License-Identifier: Apache-2.0
// Strangers at a listener have no effect but on a counter.
#include <stdlib.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/use_future.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <future>
#include <thread>

#include "ccoll/strangers.hpp"
#include "net/accept.hpp"
#include "net/lack.hpp"
#include "net/listener.hpp"
#include "net/pending_handshakes.hpp"
#include "support/children.hpp"
#include "support/eventually.hpp"
#include "support/limited_descriptors.hpp"
#include "support/strangers.hpp"
#include "system/port_range.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using asio::ip::tcp;
using testing::eventually;
using testing::greet;
using testing::LimitedDescriptors;
using testing::recorded_hello;
using testing::Stranger;

namespace {

std::unique_ptr<net::Listener> listen(const std::string& token, std::atomic<int>& came) {
  return net::Listener::open(net::Service::shared(), "", token,
                             [&](net::Purpose, net::Stream) { came++; })
      .value();
}

class PortRangeSet {
 public:
  explicit PortRangeSet(const std::string& range) {
    ::setenv("CCOLL_PORT_RANGE", range.c_str(), 1);
  }
  ~PortRangeSet() { ::unsetenv("CCOLL_PORT_RANGE"); }
  PortRangeSet(const PortRangeSet&) = delete;
};

asio::awaitable<void> connect_into(std::shared_ptr<net::Service> service, std::string address,
                                   std::promise<Result<net::Stream>>& outcome) {
  outcome.set_value(
      co_await net::connect_once(service, address, "secret", net::Purpose::control, 20s));
}

}  // namespace

TEST_CASE("strangers: one is taken in where no descriptor is left", "[core][hostile]") {
  // The undefined-behaviour sanitizer needs descriptors of its own.
  if (!testing::kChildrenHaveMemory) return;
  std::atomic<int> came = 0;
  const auto listener = listen("secret", came);
  const FileDescriptor stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto endpoint = listener->endpoint();
  const FileDescriptor lowest_free(::dup(stranger.number()));
  const LimitedDescriptors none_left(static_cast<rlim_t>(lowest_free.number()) + 1);
  REQUIRE(::connect(stranger.number(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) ==
          0);
  REQUIRE(::send(stranger.number(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
  // It does not wait until a descriptor is free: it is heard and rejected.
  CHECK(eventually([&] { return listener->rejected() == 1; }));
}

TEST_CASE("strangers: where no descriptor is left, one makes way only for somebody who is there",
          "[core][hostile]") {
  if (!testing::kChildrenHaveMemory) return;
  std::atomic<int> came = 0;
  const auto listener = listen("secret", came);
  const FileDescriptor silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileDescriptor newcomer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto connect = [endpoint = listener->endpoint()](const FileDescriptor& socket) {
    return ::connect(socket.number(), endpoint.data(), static_cast<socklen_t>(endpoint.size()));
  };
  const auto is_closed = [](const FileDescriptor& socket) {
    char byte;
    return ::recv(socket.number(), &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN;
  };
  const FileDescriptor lowest_free(::dup(silent.number()));
  const LimitedDescriptors none_left(static_cast<rlim_t>(lowest_free.number()) + 1);
  REQUIRE(connect(silent) == 0);
  std::this_thread::sleep_for(300ms);
  CHECK_FALSE(is_closed(silent));
  REQUIRE(connect(newcomer) == 0);
  CHECK(eventually([&] { return is_closed(silent); }));
  CHECK_FALSE(is_closed(newcomer));
}

TEST_CASE("strangers: the oldest that is silent makes way, and a newcomer is never refused",
          "[core][hostile]") {
  const LimitedDescriptors limited(512);
  std::atomic<int> came = 0;
  const auto listener = listen("secret", came);
  const auto endpoint = listener->endpoint();
  const auto limit = net::PendingHandshakes::limit();
  REQUIRE(limit <= 128);
  const auto before = ccoll::strangers();
  std::deque<Stranger> silent;
  for (std::size_t i = 0; i < limit; i++) silent.emplace_back(endpoint);
  CHECK_FALSE(silent.front().is_closed(100));
  // This process's valid hello arrives beside them; one more stranger evicts only the oldest.
  CHECK(greet(endpoint, "secret").has_value());
  CHECK(eventually([&] { return came == 1; }));
  silent.emplace_back(endpoint);
  CHECK(silent.front().is_closed(5000));
  CHECK_FALSE(silent.back().is_closed(0));
  for (std::size_t i = 0; i < limit; i++) silent.emplace_back(endpoint);
  CHECK(eventually([&] { return ccoll::strangers().evicted >= before.evicted + limit; }));
  CHECK(silent[limit - 1].is_closed(5000));
  CHECK_FALSE(silent.back().is_closed(0));
  silent.clear();
  CHECK(eventually([&] { return ccoll::strangers().refused == before.refused + 2 * limit + 1; }));
  CHECK(listener->rejected() == 2 * limit + 1);
  CHECK(came == 1);
}

TEST_CASE("strangers: listeners of a process share what may wait", "[core][hostile]") {
  std::atomic<int> came = 0;
  const auto alone = net::PendingHandshakes::limit();
  const auto first = listen("", came);
  const auto one = net::PendingHandshakes::limit();
  std::vector<std::unique_ptr<net::Listener>> more;
  for (int i = 0; i < 3; i++) more.push_back(listen("", came));
  CHECK(one <= alone);
  CHECK(net::PendingHandshakes::limit() <= one);
  CHECK(net::PendingHandshakes::limit() >= 16);
  if (one >= 64) CHECK(net::PendingHandshakes::limit() < one);
}

TEST_CASE("strangers: a process's own ranks are none, however many say hello at once",
          "[core][hostile]") {
  std::atomic<int> came = 0;
  std::vector<std::unique_ptr<net::Listener>> listeners;
  while (listeners.empty() || (net::PendingHandshakes::limit() > 16 && listeners.size() < 200))
    listeners.push_back(listen("secret", came));
  const auto before = ccoll::strangers();
  const auto service = net::Service::shared();
  const auto address = net::to_string(listeners[0]->endpoint());
  constexpr std::size_t kOwn = 120;
  std::vector<std::promise<Result<net::Stream>>> all(kOwn);
  for (auto& each : all)
    asio::co_spawn(service->context(), connect_into(service, address, each), asio::detached);
  std::size_t good = 0;
  for (auto& each : all) good += each.get_future().get().has_value();
  CHECK(good == kOwn);
  CHECK(ccoll::strangers().evicted == before.evicted);
}

TEST_CASE("strangers: a hello that was good once is refused when it comes again",
          "[core][hostile]") {
  std::atomic<int> came = 0;
  const auto listener = listen("secret", came);
  const auto hello = recorded_hello(listener->endpoint(), "secret");
  CHECK(hello.size() == 75);
  CHECK(eventually([&] { return came == 1; }));
  Stranger again(listener->endpoint());
  again.say(hello);
  again.end();
  const auto answer = again.hear(5000);
  REQUIRE(answer.size() == 44);
  CHECK(answer.back() != 0);  // the verdict; the server sends no proof after it
  CHECK(eventually([&] { return listener->rejected() == 1; }));
  CHECK(came == 1);
}

TEST_CASE("strangers: who is slow has no more time than who says nothing", "[core][hostile]") {
  using Local = asio::local::stream_protocol;
  asio::io_context context;
  Local::socket server(context), loris(context);
  asio::local::connect_pair(server, loris);
  auto answered = asio::co_spawn(context, net::answer(server, "secret", 300ms), asio::use_future);
  const auto start = std::chrono::steady_clock::now();
  std::thread serving([&] { context.run(); });
  const std::string hello = std::string("ccoll\r\n\x01") + std::string("\x02\x00\x03", 3);
  std::error_code closed;
  for (std::size_t i = 0; !closed && i < 100; i++) {
    loris.write_some(asio::buffer(hello.data() + i % hello.size(), 1), closed);
    std::this_thread::sleep_for(50ms);
  }
  serving.join();
  const auto purpose = answered.get();
  REQUIRE_FALSE(purpose);
  CHECK(purpose.error().kind == ErrorKind::timed_out);
  CHECK(std::chrono::steady_clock::now() - start < 4s);
}

TEST_CASE("strangers: a client is no guest any more when it hears that it is in",
          "[core][hostile]") {
  using Local = asio::local::stream_protocol;
  const bool knows_token = GENERATE(true, false);
  CAPTURE(knows_token);
  asio::io_context context;
  Local::socket server(context), client(context);
  asio::local::connect_pair(server, client);
  net::PendingHandshakes pending("a test");
  auto answered =
      asio::co_spawn(context, net::answer_guest(pending, server, "secret", 5s), asio::use_future);
  bool was_guest = false;
  auto greeted = asio::co_spawn(
      context,
      [&]() -> asio::awaitable<bool> {
        const auto status =
            co_await net::greet(client, knows_token ? "secret" : "guess", net::Purpose::link, 5s);
        was_guest = pending.evict_oldest();
        co_return status.has_value();
      },
      asio::use_future);
  context.run();
  CHECK(answered.get().has_value() == knows_token);
  CHECK(greeted.get() == knows_token);
  CHECK(was_guest == !knows_token);
}

TEST_CASE("net: attempts fail for good once all have lacked something for a while", "[core]") {
  const Failure lacks{ErrorKind::exhausted, "no descriptor", std::nullopt};
  const Failure other{ErrorKind::timed_out, "no answer", std::nullopt};
  const net::Lack::Time begin{1h};
  const auto end = begin + net::kLackLimit;
  net::Lack lack;
  CHECK_FALSE(lack.lasts(other, begin, end + 1h));
  CHECK_FALSE(lack.lasts(lacks, begin));
  CHECK_FALSE(lack.lasts(lacks, begin + 1s, end - 1ns));
  CHECK(lack.lasts(lacks, begin + 1s, end));
  CHECK(lack.lasts(lacks, end));
  // Another failure shows that it was there for a moment.
  CHECK_FALSE(lack.lasts(other, end));
  CHECK_FALSE(lack.lasts(lacks, end));
  CHECK(lack.lasts(lacks, end + net::kLackLimit));
}

TEST_CASE("net: a process that has no descriptor for anybody says so after a while", "[core]") {
  const auto spare = net::Spare::of_process();
  REQUIRE(spare->restore());
  CHECK_FALSE(net::lack_of_descriptors(0ms));
  {
    const int next = ::dup(0);
    ::close(next);
    const testing::LimitedDescriptors limit(static_cast<rlim_t>(next));
    spare->spend();
    // Somebody else takes the descriptor that the spare had.
    const FileDescriptor taken(::dup(0));
    CHECK_FALSE(net::lack_of_descriptors(0ms));
    const auto begin = Clock::now();
    spare->starve(begin);
    spare->starve(begin + 1h);  // it still does
    CHECK_FALSE(net::lack_of_descriptors(2h, begin + 2h - 1ns));
    const auto lack = net::lack_of_descriptors(2h, begin + 2h);
    REQUIRE(lack);
    CHECK(lack->kind == ErrorKind::exhausted);
  }
  CHECK_FALSE(net::lack_of_descriptors(0ms));
}

TEST_CASE("strangers: whatever they say, nobody hears of it", "[core][hostile]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::minstd_rand random(seed);
  std::atomic<int> came = 0;
  const auto listener = listen("secret", came);
  const std::string start = "ccoll\r\n\x01";
  for (std::uint64_t i = 1; i <= 200; i++) {
    Stranger stranger(listener->endpoint());
    stranger.say(start.substr(0, random() % (start.size() + 1)));
    if (random() % 2 == 0) stranger.say(std::string("\x02\x00\x03", 3));
    stranger.say(testing::random_bytes(random, 200));
    stranger.end();
    CHECK(stranger.hear(5000).size() <= 44);
  }
  CHECK(eventually([&] { return listener->rejected() == 200; }));
  CHECK(greet(listener->endpoint(), "secret").has_value());
  CHECK(eventually([&] { return came == 1; }));
}

TEST_CASE("port range: listeners take its ports, each another, and say when none is free",
          "[core]") {
  std::atomic<int> came = 0;
  // Three consecutive free ports; others may take one meanwhile, so it tries several times.
  for (int tries = 0;; tries++) {
    const auto probe = listen("", came);
    const auto first = probe->endpoint().port();
    if (first > 65000) continue;
    const PortRangeSet set(fmt::format("{}-{}", first + 1, first + 2));
    std::vector<std::unique_ptr<net::Listener>> all;
    Result<std::unique_ptr<net::Listener>> one;
    const auto open = [&] {
      return net::Listener::open(net::Service::shared(), "", "", [](net::Purpose, net::Stream) {});
    };
    while ((one = open())) all.push_back(std::move(*one));
    CHECK(one.error().kind == ErrorKind::exhausted);
    CHECK(one.error().message ==
          fmt::format("cannot listen at 127.0.0.1: none of the ports {} to {} is free "
                      "(CCOLL_PORT_RANGE): each rank of a host needs one, and the store another",
                      first + 1, first + 2));
    for (const auto& each : all) {
      CHECK(each->endpoint().port() > first);
      CHECK(each->endpoint().port() <= first + 2);
    }
    REQUIRE(all.size() <= 2);
    if (all.size() == 2) {
      CHECK(all[0]->endpoint().port() != all[1]->endpoint().port());
      // A port given by the user is used as it is.
      all.clear();
      CHECK(net::Listener::open(net::Service::shared(), fmt::format("127.0.0.1:{}", first + 1), "",
                                [](net::Purpose, net::Stream) {})
                .has_value());
      break;
    }
    REQUIRE(tries < 50);
  }
}

TEST_CASE("port range: what is none is refused with what was given", "[core]") {
  CHECK(net::parse_port_range("20000-20100").value() == net::PortRange{20000, 20100});
  CHECK(net::parse_port_range("20000").value() == net::PortRange{20000, 20000});
  CHECK(net::parse_port_range("1-65535").value() == net::PortRange{1, 65535});
  for (const char* text :
       {"0-5", "5-4", "70000", "5-70000", "-", "5-", "-5", "5-6-7", "a-b", " 5"}) {
    const auto range = net::parse_port_range(text);
    CAPTURE(text);
    REQUIRE_FALSE(range);
    CHECK(range.error().kind == ErrorKind::invalid_argument);
    CHECK(range.error().message ==
          fmt::format(
              "CCOLL_PORT_RANGE={} is not a range of ports from 1 to 65535, such as 20000-20100",
              text));
  }
  const PortRangeSet set("many");
  const auto listener =
      net::Listener::open(net::Service::shared(), "", "", [](net::Purpose, net::Stream) {});
  REQUIRE_FALSE(listener);
  CHECK_THAT(listener.error().message, Catch::Contains("CCOLL_PORT_RANGE=many"));
}
