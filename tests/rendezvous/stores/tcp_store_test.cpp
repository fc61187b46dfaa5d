// SPDX-License-Identifier: Apache-2.0
// Specific to the store over TCP: strangers, clients that die or come early, and crowds.
#include <netdb.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <random>
#include <thread>

#include "ccoll/store.hpp"
#include "ccoll/types.hpp"
#include "core/bytes.hpp"
#include "net/address.hpp"
#include "net/listener.hpp"
#include "net/wire/frame.hpp"
#include "rendezvous/open_store.hpp"
#include "rendezvous/stores/tcp_store.hpp"
#include "support/kept_port.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + ": " + error.what();
  }
  return "no failure";
}

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
  return condition();
}

tcp::endpoint endpoint_of(const StoreServer& server) {
  return *net::numeric_endpoint(*net::parse_address(server.address()));
}

/// Sends `bytes` as a stranger and waits until the server hangs up.
void say(const StoreServer& server, std::string_view bytes) {
  asio::io_context context;
  tcp::socket socket(context);
  socket.connect(endpoint_of(server));
  std::error_code ignored;
  asio::write(socket, asio::buffer(bytes), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  char byte;
  while (!ignored) socket.read_some(asio::buffer(&byte, 1), ignored);
}

using Opened = std::promise<Result<net::Stream>>;

asio::awaitable<void> open_one(std::shared_ptr<net::Service> service, std::string address,
                               Opened& opened) {
  opened.set_value(co_await net::connect(service, address, "", net::Purpose::store, 5s, "store",
                                         "is it running?"));
}

/// A connection with a valid hello.
tcp::socket open_connection(const std::shared_ptr<net::Service>& service,
                            const StoreServer& server) {
  Opened opened;
  asio::co_spawn(service->context(), open_one(service, server.address(), opened), asio::detached);
  return value_or_throw(opened.get_future().get()).release();
}

}  // namespace

static std::atomic<bool> name_service_is_asked = false, name_service_answers = false;

/// Replaces the C library's function: a name service that hangs until released, and then knows no
/// name.
extern "C" int getaddrinfo(const char*, const char*, const addrinfo*, addrinfo**) {
  name_service_is_asked = true;
  for (int i = 0; !name_service_answers && i < 2000; i++) std::this_thread::sleep_for(10ms);
  return EAI_NONAME;
}

TEST_CASE("nobody who forks waits for a name service", "[rendezvous]") {
  auto opened = std::async(std::launch::async, [] {
    Environment environment;
    environment.size = 2;
    environment.store = "tcp://slow.invalid:29500";
    environment.rank0_serves_store = true;
    return open_store(environment, "a token", 100ms, {});
  });
  REQUIRE(eventually([] { return name_service_is_asked.load(); }));
  auto forked = std::async(std::launch::async, [] {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
  });
  CHECK(forked.wait_for(5s) == std::future_status::ready);
  name_service_answers = true;
  CHECK_FALSE(opened.get());
}

TEST_CASE("a stranger's bytes never hurt the store", "[rendezvous][hostile]") {
  const auto server = serve_tcp_store();
  const auto store = connect_tcp_store(server->address());
  std::mt19937 random(20240917);
  std::uint64_t sent = 0;
  say(*server, ""), ++sent;
  say(*server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), ++sent;
  say(*server, "ccoll\r\n\x01"), ++sent;
  for (int i = 0; i < 50; ++i, ++sent) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    say(*server, bytes);
  }
  CHECK(eventually([&] { return server->statistics().rejected == sent; }));

  const auto service = net::Service::shared();
  using namespace std::string_literals;
  const std::string garbage = net::to_frame("\x01\0\0\0\0\0\0\0\x63garbage"s);
  const std::string crowd =
      net::to_frame("\x01\0\0\0\0\0\0\0\x02"s + std::string(8, '\0') + "\xff\xff\xff\xff"s);
  for (const std::string& bytes : {"\0\0\0\0\0\0\0\x80"s, "\xff\xff\xff\xff"s, garbage, crowd}) {
    tcp::socket socket = open_connection(service, *server);
    std::error_code error;
    asio::write(socket, asio::buffer(bytes), error);
    char byte;
    asio::read(socket, asio::buffer(&byte, 1), error);
    CHECK(error);
    ++sent;
    CHECK(eventually([&] { return server->statistics().rejected == sent; }));
  }
  store->set("still", "there");
  CHECK(store->get("still") == "there");
  CHECK(eventually([&] { return server->statistics().clients == 1; }));
}

TEST_CASE("a client may come before its server", "[rendezvous]") {
  const testing::KeptPort port;
  auto client =
      std::async(std::launch::async, [&] { return connect_tcp_store(port.address(), {}, 20s); });
  std::this_thread::sleep_for(100ms);  // time for some failed attempts
  const auto server = serve_tcp_store(port.address());
  const auto store = client.get();
  store->set("k", "v");
  CHECK(store->get("k") == "v");
}

TEST_CASE("a client looks for its server until shortly before its limit", "[rendezvous]") {
  const testing::KeptPort port;
  const auto begin = std::chrono::steady_clock::now();
  failure_of([&] { connect_tcp_store(port.address(), {}, 2s); });
  CHECK(std::chrono::steady_clock::now() - begin > 1500ms);
}

TEST_CASE("a missing server, another token and no token are told apart", "[rendezvous]") {
  const testing::KeptPort port;
  const std::string address = port.address();
  const std::string nobody = failure_of([&] { connect_tcp_store(address, {}, 250ms); });
  CHECK_THAT(nobody, Catch::StartsWith("timed_out: no store at " + address +
                                       " after 0.25 s (connection refused, ") &&
                         Catch::EndsWith(" tries): is rank 0 running?"));
  const auto server = serve_tcp_store({}, "secret");
  CHECK_THAT(failure_of([&] { connect_tcp_store(server->address(), "other", 5s); }),
             Catch::Contains("the token differs"));
  connect_tcp_store(server->address(), "secret", 5s)->set("k", "v");
  for (const auto& call : {std::function<void()>([] { serve_tcp_store("0.0.0.0:0"); }),
                           std::function<void()>([] { connect_tcp_store("10.0.0.1:1"); })}) {
    CHECK_THAT(failure_of(call), Catch::StartsWith("invalid_argument") &&
                                     Catch::Contains("CCOLL_TOKEN_FILE") &&
                                     Catch::Contains("cc-run --token-file"));
  }
}

TEST_CASE("the store of a job serves its ranks only, and tells others whose it is",
          "[rendezvous]") {
  const auto jobs = std::make_shared<rendezvous::OwnJobs>();
  jobs->add("a");
  const auto server = value_or_throw(rendezvous::serve_store("", "", {}, jobs));
  const auto outcome = [&](const std::optional<rendezvous::JobClaim>& claim) {
    return failure_of([&] {
      value_or_throw(rendezvous::connect_store(server->address(), "", 5s, {}, claim))->set("k", "");
    });
  };
  CHECK(outcome(rendezvous::JobClaim{"a"}) == "no failure");
  CHECK(outcome(std::nullopt) == "no failure");  // a client that connects on its own
  CHECK_THAT(outcome(rendezvous::JobClaim{"b"}),
             Catch::StartsWith("mismatch: the store at " + server->address()) &&
                 Catch::Contains("of job 'a'") && Catch::Contains("of job 'b'") &&
                 Catch::Contains("MASTER_PORT"));
  CHECK_THAT(outcome(rendezvous::JobClaim{""}), Catch::Contains("of a job without a name"));
  // The rank that is to serve it itself: this process may have the address in another form.
  CHECK(outcome(rendezvous::JobClaim{"a", jobs->process()}) == "no failure");
  CHECK_THAT(outcome(rendezvous::JobClaim{"a", rendezvous::OwnJobs().process()}),
             Catch::Contains("is served by rank 0 of another job, or of an earlier start"));
  const auto of_all = serve_tcp_store();
  CHECK(failure_of([&] {
          value_or_throw(rendezvous::connect_store(of_all->address(), "", 5s, {},
                                                   rendezvous::JobClaim{"b", 1}));
        }) == "no failure");
}

TEST_CASE("calls under way fail when the server ends, and those after", "[rendezvous]") {
  auto server = serve_tcp_store();
  const auto store = connect_tcp_store(server->address());
  std::string failure;
  std::thread waiting([&] { failure = failure_of([&] { store->get("never"); }); });
  CHECK(eventually([&] { return server->statistics().requests == 1; }));
  server.reset();
  waiting.join();
  CHECK_THAT(failure, Catch::StartsWith("peer_lost: the store at "));
  CHECK_THAT(failure_of([&] { store->get("k"); }), Catch::StartsWith("peer_lost"));
}

TEST_CASE("a client that dies counts in no barrier", "[rendezvous]") {
  const auto server = serve_tcp_store();
  const auto service = net::Service::shared();
  {
    // A barrier of two at "b", as a client sends it, followed by its end.
    net::Writer writer;
    writer.number(std::uint64_t{1}).number(std::uint8_t{10}).number(std::uint64_t{2});
    writer.number(std::uint32_t{1}).text("b").number(std::uint32_t{0});
    tcp::socket socket = open_connection(service, *server);
    asio::write(socket, asio::buffer(net::to_frame(writer.bytes())));
    CHECK(eventually([&] { return server->statistics().requests == 1; }));
  }
  CHECK(eventually([&] { return server->statistics().clients == 0; }));
  const auto store = connect_tcp_store(server->address());
  CHECK_THAT(failure_of([&] { store->barrier("b", 2, 30ms); }),
             Catch::Contains("1 of 2 callers came after 0.03 s"));
}

TEST_CASE("one server serves 2,000 clients at once", "[rendezvous][stress]") {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t count = std::min<std::size_t>(2000, (limit.rlim_cur - 200) / 2);
  const auto server = serve_tcp_store();
  std::vector<std::shared_ptr<Store>> clients;
  for (std::size_t i = 0; i < count; ++i) clients.push_back(connect_tcp_store(server->address()));
  // A client finishes its hello a moment before the server counts it.
  CHECK(eventually([&] { return server->statistics().clients == count; }));
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        if (clients[i]->get("go", 20s) == "!") ++good;
      } catch (const Error&) {
      }
    });
  }
  CHECK(eventually([&] { return server->statistics().requests == count; }));
  clients[0]->set("go", "!");
  for (std::thread& thread : threads) thread.join();
  CHECK(good == static_cast<int>(count));
  clients.clear();
  CHECK(eventually([&] { return server->statistics().clients == 0; }));
}
