// SPDX-License-Identifier: Apache-2.0
// The service thread, listeners and the hello.
#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "net/listener.hpp"
#include "net/silenceable.hpp"
#include "net/wire/frame.hpp"
#include "support/eventually.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using asio::ip::tcp;
using ccoll::testing::eventually;

namespace {

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

using Outcome = std::promise<Result<net::Stream>>;

asio::awaitable<void> connect_into(std::shared_ptr<net::Service> service, std::string address,
                                   std::string token, std::chrono::milliseconds timeout,
                                   Outcome& outcome) {
  outcome.set_value(co_await net::connect(service, address, token, net::Purpose::link, timeout,
                                          "peer", "is it running?"));
}

Result<net::Stream> connect(const std::shared_ptr<net::Service>& service,
                            const std::string& address, const std::string& token,
                            std::chrono::milliseconds timeout = 5s) {
  Outcome outcome;
  asio::co_spawn(service->context(), connect_into(service, address, token, timeout, outcome),
                 asio::detached);
  return outcome.get_future().get();
}

/// How many bits wider than 64 KiB the window that this end offers may become.
unsigned scale_of_window(tcp::socket& socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  REQUIRE(getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0);
  return info.tcpi_rcv_wscale;
}

std::string message_of(const Result<net::Stream>& result) {
  return result ? "no failure" : result.error().message;
}

/// The error of a client whose server answers anything with `bytes`.
std::string greeted_by(const std::string& bytes) {
  asio::io_context context;
  tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const std::string address = net::to_string(acceptor.local_endpoint());
  std::thread stranger([&] {
    tcp::socket socket = acceptor.accept();
    acceptor.close();
    std::error_code error;
    asio::write(socket, asio::buffer(bytes), error);
    socket.shutdown(tcp::socket::shutdown_send, error);
    char byte;
    while (!error) socket.read_some(asio::buffer(&byte, 1), error);
  });
  const std::string message = message_of(connect(net::Service::shared(), address, "", 300ms));
  stranger.join();
  return message;
}

}  // namespace

static std::atomic<bool> name_service_answers = false;

/// Replaces the C library's function: lookups of one name hang until released.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  const bool slow = host != nullptr && std::string_view(host) == "slow.invalid";
  for (int i = 0; slow && !name_service_answers && i < 2000; i++) std::this_thread::sleep_for(10ms);
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(host, service, hints, found);
}

TEST_CASE("a name service that is slow does not outlast the time limit", "[core]") {
  const auto service = net::Service::dedicated();
  const auto start = std::chrono::steady_clock::now();
  const auto connected = connect(service, "slow.invalid:29500", "a token", 300ms);
  name_service_answers = true;
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  REQUIRE_FALSE(connected);
  CHECK(connected.error().kind == ErrorKind::timed_out);
  // It gets what is left of the limit at that time.
  CHECK_THAT(
      connected.error().message,
      Catch::Matches("no peer at slow\\.invalid:29500 after 0\\.[0-9]+ s \\(the name service "
                     "gave no address of 'slow\\.invalid' within 0\\.(3|[0-2][0-9]*) s, 1 "
                     "try\\): is it running\\?"));
}

TEST_CASE("the shared service is one while somebody holds it", "[core]") {
  const auto a = net::Service::shared();
  CHECK(a == net::Service::shared());
  CHECK(a != net::Service::dedicated());
  CHECK_FALSE(a->on_service_thread());
  std::promise<bool> inside;
  asio::post(a->context(), [&] { inside.set_value(a->on_service_thread()); });
  CHECK(inside.get_future().get());
}

TEST_CASE("a service may lose its last reference on its own thread", "[core]") {
  for (int i = 0; i < 20; ++i) {
    std::promise<void> alone, dropped;
    auto service = net::Service::dedicated();
    asio::post(service->context(), [last = service, &alone, &dropped]() mutable {
      alone.get_future().wait();
      last.reset();
      dropped.set_value();
    });
    service.reset();
    alone.set_value();
    dropped.get_future().wait();
  }
}

TEST_CASE("both sides of a good hello meet, over IPv4 and with a token", "[core]") {
  const auto service = net::Service::shared();
  for (const std::string token : {"", "secret"}) {
    std::promise<net::Purpose> came;
    const auto listener = net::Listener::open(
        service, "", token, [&](net::Purpose purpose, net::Stream) { came.set_value(purpose); });
    REQUIRE(listener);
    const auto socket = connect(service, net::to_string((*listener)->endpoint()), token);
    INFO(message_of(socket));
    REQUIRE(socket);
    CHECK(came.get_future().get() == net::Purpose::link);
    CHECK((*listener)->rejected() == 0);
  }
}

TEST_CASE("each way to fail a hello has its own words", "[core][hostile]") {
  const auto service = net::Service::shared();
  const auto listener =
      net::Listener::open(service, "", "secret", [](net::Purpose, net::Stream) {});
  REQUIRE(listener);
  const std::string address = net::to_string((*listener)->endpoint());
  CHECK_THAT(message_of(connect(service, address, "other")), Catch::Contains("the token differs"));
  CHECK_THAT(message_of(connect(service, address, "")), Catch::Contains("the token differs"));
  CHECK(eventually([&] { return (*listener)->rejected() == 2; }));
  CHECK_THAT(greeted_by("HTTP/1.1 400 Bad Request\r\n"),
             Catch::Contains(fmt::format("does not speak ccoll protocol version {}: it answered "
                                         "\"HTTP/1.1 40",
                                         net::kProtocolVersion)));
  constexpr int kOther = net::kProtocolVersion + 1;
  CHECK_THAT(
      greeted_by("ccoll\r\n\x01" + std::string{char{kOther % 256}, char{kOther / 256}, '\x01'}),
      Catch::Contains(fmt::format("does not speak ccoll protocol version {} but version {}",
                                  net::kProtocolVersion, kOther)));
}

TEST_CASE("a hello that is cut off is tried again, wherever that is", "[core]") {
  const std::string answer = "ccoll\r\n\x01" + std::string{char{net::kProtocolVersion % 256},
                                                           char{net::kProtocolVersion / 256}, '\0'};
  for (std::size_t bytes = 0; bytes <= answer.size(); bytes++) {
    CAPTURE(bytes);
    CHECK_THAT(greeted_by(answer.substr(0, bytes)),
               Catch::StartsWith("no peer at ") && !Catch::Contains("another program"));
  }
}

TEST_CASE("a listener answers another version and then forgets it", "[core][hostile]") {
  const auto listener =
      net::Listener::open(net::Service::shared(), "", "", [](net::Purpose, net::Stream) {});
  REQUIRE(listener);
  asio::io_context context;
  tcp::socket socket(context);
  socket.connect((*listener)->endpoint());
  constexpr int kOther = net::kProtocolVersion + 2;
  asio::write(socket,
              asio::buffer("ccoll\r\n\x01" + std::string{char{kOther % 256}, char{kOther / 256}} +
                           std::string(100, 'x')));
  std::string answer(11, '\0');
  asio::read(socket, asio::buffer(answer));
  const std::string version = {char{net::kProtocolVersion % 256},
                               char{net::kProtocolVersion / 256}};
  CHECK(answer == "ccoll\r\n\x01" + version + "\x01");
  socket.close();
  CHECK(eventually([&] { return (*listener)->rejected() == 1; }));
}

TEST_CASE("a listener that ends frees its port and every connection in its hello", "[core]") {
  const auto service = net::Service::shared();
  asio::io_context context;
  std::vector<tcp::socket> silent;
  const auto open_one = [&](const std::string& address) {
    return net::Listener::open(service, address, "", [](net::Purpose, net::Stream) {});
  };
  // A context's first socket and first listener open descriptors that stay open.
  silent.emplace_back(context, tcp::v4());
  silent.clear();
  REQUIRE(open_one(""));
  // Some of them may still be closing.
  const std::size_t before = open_descriptors();
  auto listener = open_one("");
  REQUIRE(listener);
  const auto endpoint = (*listener)->endpoint();
  for (int i = 0; i < 20; ++i) silent.emplace_back(context).connect(endpoint);
  listener->reset();
  CHECK(open_one(net::to_string(endpoint)).has_value());
  silent.clear();
  CHECK(eventually([&] { return open_descriptors() <= before; }));
}

TEST_CASE("what comes to a listener begins with a wide window, and may get as wide as any",
          "[core]") {
  const auto service = net::Service::shared();
  std::promise<net::Stream> came;
  const auto listener = net::Listener::open(service, "", "", [&](net::Purpose, net::Stream stream) {
                          came.set_value(std::move(stream));
                        }).value();
  const auto there = connect(service, net::to_string(listener->endpoint()), "");
  REQUIRE(there);
  auto accepted = came.get_future().get();
  asio::io_context context;
  tcp::acceptor usual(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  tcp::socket client(context);
  client.connect(usual.local_endpoint());
  auto served = usual.accept();

  asio::socket_base::receive_buffer_size ours, usuals;
  accepted.socket().get_option(ours);
  served.get_option(usuals);
  CHECK(ours.value() >= std::max(usuals.value(), 256 << 10));
  asio::socket_base::receive_low_watermark mark;
  accepted.socket().get_option(mark);
  CHECK(mark.value() == 1);
  CHECK(scale_of_window(accepted.socket()) == scale_of_window(served));
}

TEST_CASE("addresses that cannot be listened at are refused with the reason", "[core]") {
  const auto service = net::Service::shared();
  const auto refusal = [&](const std::string& address) {
    const auto listener =
        net::Listener::open(service, address, "", [](net::Purpose, net::Stream) {});
    return listener ? "no failure" : listener.error().message;
  };
  CHECK_THAT(refusal("0.0.0.0:0"), Catch::Contains("CCOLL_TOKEN_FILE"));
  CHECK_THAT(refusal("[::]:0"), Catch::Contains("CCOLL_TOKEN_FILE"));
  CHECK_THAT(refusal("127.0.0.1"), Catch::Contains("has no port"));
  CHECK_THAT(refusal("127.0.0.1:70000"), Catch::Contains("no port between 0 and 65535"));
  CHECK_THAT(refusal("::1:5"), Catch::Contains("several colons"));
  const auto first = net::Listener::open(service, "", "", [](net::Purpose, net::Stream) {});
  CHECK_THAT(refusal(net::to_string((*first)->endpoint())), Catch::Contains("another port"));
}

TEST_CASE("a rank's own address follows the route and the interface named", "[core]") {
  CHECK(net::local_address("", "127.0.0.1:29500").value() == "127.0.0.1:0");
  CHECK(net::local_address("", "").value() == "127.0.0.1:0");
  CHECK(net::local_address("=lo", "127.0.0.1:1").value() == "127.0.0.1:0");
  CHECK(net::local_address("l", "127.0.0.1:1").value() == "127.0.0.1:0");
  const auto none = net::local_address("nosuch", "");
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message,
             Catch::Contains("CCOLL_SOCKET_IFNAME='nosuch'") && Catch::Contains("lo (127.0.0.1)"));
}

TEST_CASE("a rank's own address is of the family that is asked for", "[core]") {
  CHECK(net::local_address("", "127.0.0.1:29500", "ipv4").value() == "127.0.0.1:0");
  CHECK(net::local_address("", "", "ipv4").value() == "127.0.0.1:0");
  CHECK(net::local_address("", "", "ipv6").value() == "[::1]:0");
  CHECK(net::local_address("", "127.0.0.1:29500", "ipv6").value() == "[::1]:0");
  CHECK(net::local_address("", "[::1]:29500", "ipv4").value() == "127.0.0.1:0");
  CHECK(net::local_address("=lo", "", "ipv4").value() == "127.0.0.1:0");
  const auto refused = [](const std::string& interface, const std::string& towards,
                          std::string_view family) {
    const auto address = net::local_address(interface, towards, family);
    REQUIRE_FALSE(address);
    CHECK(address.error().kind == ErrorKind::invalid_argument);
    return address.error().message;
  };
  CHECK(refused("", "", "ipv5") ==
        "socket_family (CCOLL_SOCKET_FAMILY) is 'ipv5': expected ipv4, ipv6, or nothing");
  CHECK_THAT(refused("nosuch", "", "ipv6"),
             Catch::Contains("CCOLL_SOCKET_IFNAME='nosuch' and CCOLL_SOCKET_FAMILY=ipv6;"));
  CHECK_THAT(refused("", "192.0.2.1:29500", "ipv6"),
             Catch::Contains("CCOLL_SOCKET_FAMILY=ipv6, and the store's address 192.0.2.1:29500"));
}

TEST_CASE("one try ends at once where nobody listens, and waits for who is slow to greet",
          "[core]") {
  const auto service = net::Service::shared();
  const auto try_once = [&](const std::string& address, std::chrono::milliseconds timeout) {
    Outcome outcome;
    const auto run = [](std::shared_ptr<net::Service> on, std::string to,
                        std::chrono::milliseconds limit, Outcome& into) -> asio::awaitable<void> {
      into.set_value(co_await net::connect_once(on, to, "", net::Purpose::link, limit));
    };
    asio::co_spawn(service->context(), run(service, address, timeout, outcome), asio::detached);
    return outcome.get_future().get();
  };
  asio::io_context context;
  tcp::acceptor slow(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const std::string address = net::to_string(slow.local_endpoint());
  // The kernel accepts the connection, but no greeting follows.
  const auto unanswered = try_once(address, 100ms);
  REQUIRE_FALSE(unanswered);
  CHECK(unanswered.error().kind == ErrorKind::timed_out);
  slow.close();
  const auto start = std::chrono::steady_clock::now();
  const auto refused = try_once(address, 5s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::peer_lost);
  CHECK(refused.error().message == "connection refused");
  CHECK(std::chrono::steady_clock::now() - start < 1s);
}

TEST_CASE("what is thrown on the service thread ends what threw it, and nothing else", "[core]") {
  const auto service = net::Service::dedicated();
  const auto task = []() -> asio::awaitable<void> {
    throw std::bad_alloc();
    co_return;
  };
  std::promise<Failure> told;
  net::spawn(service->context().get_executor(), task(), "a test",
             [&](const Failure& failure) { told.set_value(failure); });
  const Failure failure = told.get_future().get();
  CHECK(failure.kind == ErrorKind::exhausted);
  CHECK(failure.message == "out of memory");
  net::spawn(service->context().get_executor(), task(), "a test that logs");
  asio::post(service->context(), [] { throw std::logic_error("a handler that throws"); });
  std::promise<bool> alive;
  asio::post(service->context(), [&] { alive.set_value(service->on_service_thread()); });
  CHECK(alive.get_future().get());
}

TEST_CASE("a listener outlives handlers that throw", "[core]") {
  const auto service = net::Service::shared();
  std::atomic<int> came = 0;
  const auto listener = net::Listener::open(service, "", "", [&](net::Purpose, net::Stream) {
    if (++came < 3) throw std::runtime_error("no place for it");
  });
  REQUIRE(listener);
  for (int i = 1; i <= 3; ++i) {
    REQUIRE(connect(service, net::to_string((*listener)->endpoint()), ""));
    CHECK(eventually([&] { return came == i; }));
  }
}

namespace {

/// Blocks a service's thread while it lives.
class Held {
 public:
  explicit Held(const std::shared_ptr<net::Service>& service) {
    std::promise<void> inside;
    asio::post(service->context(), [&inside, end = end_.get_future().share()] {
      inside.set_value();
      end.wait();
    });
    inside.get_future().wait();
  }
  ~Held() { end_.set_value(); }
  Held(const Held&) = delete;

 private:
  std::promise<void> end_;
};

}  // namespace

TEST_CASE("what ends while the service thread is held waits for it once, and not for long",
          "[core]") {
  std::atomic<int> handled = 0;
  Result<net::Stream> late = fail(ErrorKind::internal, "");
  std::thread caller;
  {
    auto service = net::Service::dedicated();
    std::vector<std::unique_ptr<net::Listener>> listeners;
    for (int i = 0; i < 20; i++)
      listeners.push_back(*net::Listener::open(
          service, "", "", [&](net::Purpose, const net::Stream&) { handled++; }));
    CHECK(service->catch_up());
    const Held held(service);
    caller = std::thread([&, address = net::to_string(listeners[0]->endpoint())] {
      late = connect(net::Service::shared(), address, "", 200ms);
    });
    const auto began = std::chrono::steady_clock::now();
    listeners.clear();
    CHECK_FALSE(service->catch_up());
    service.reset();
    CHECK(std::chrono::steady_clock::now() - began < 5s);
  }
  caller.join();
  CHECK_FALSE(late.has_value());
  CHECK(handled == 0);
}

TEST_CASE("a service thread that was held is waited for again", "[core]") {
  const auto service = net::Service::dedicated();
  {
    const Held held(service);
    CHECK_FALSE(service->catch_up());
  }
  CHECK(eventually([&] { return service->catch_up(); }));
  std::atomic<bool> done = false;
  asio::post(service->context(), [&] {
    std::this_thread::sleep_for(50ms);
    done = true;
  });
  CHECK(service->catch_up());
  CHECK(done);
}

TEST_CASE("a handler that is silenced is not called, nor under way", "[core]") {
  const auto service = net::Service::dedicated();
  std::promise<void> inside, go_on;
  std::atomic<bool> over = false;
  net::Silenceable<int> handler([&](int) {
    inside.set_value();
    go_on.get_future().wait();
    std::this_thread::sleep_for(20ms);
    over = true;
  });
  asio::post(service->context(), [&] { handler.call(1); });
  inside.get_future().wait();
  std::thread other([&] { go_on.set_value(); });
  handler.silence(*service);
  CHECK(over);
  over = false;
  handler.call(2);
  CHECK_FALSE(over);
  other.join();
}

TEST_CASE("a forked child leaves its parent's listener as it is", "[core]") {
  const auto service = net::Service::shared();
  auto listener = net::Listener::open(service, "", "", [](net::Purpose, const net::Stream&) {});
  REQUIRE(listener);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    listener->reset();
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(connect(service, net::to_string((*listener)->endpoint()), "").has_value());
}
