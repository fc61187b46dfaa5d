// SPDX-License-Identifier: Apache-2.0
// Start-up that another thread stops, at any point.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <future>
#include <thread>

#include "support/directory.hpp"
#include "support/eventually.hpp"
#include "support/logged.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::eventually;
using testing::expect;
using testing::Heard;
using testing::logged;
using testing::message_of;
using testing::run_threads;

namespace {

using Clock = std::chrono::steady_clock;

/// 1 s is promised; a busy machine may take longer.
constexpr auto kSoon = 10s;

CommunicatorOptions stopped_by(const std::stop_source& source) {
  CommunicatorOptions options;
  options.start_timeout = kNoLimit;
  options.start_stop = source.get_token();
  return options;
}

/// The error of `create` when a stop is requested shortly after it has begun.
std::string ended(const std::function<void(const CommunicatorOptions&)>& create) {
  std::stop_source source;
  auto ended = std::async(std::launch::async,
                          [&] { return message_of([&] { create(stopped_by(source)); }); });
  CHECK(ended.wait_for(300ms) == std::future_status::timeout);
  source.request_stop();
  const auto began = Clock::now();
  const auto text = ended.get();
  CHECK(Clock::now() - began < kSoon);
  return text;
}

Environment environment_at(const std::string& store, int rank) {
  Environment environment;
  environment.rank = rank;
  environment.size = 3;
  environment.store = store;
  return environment;
}

std::size_t descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    count++;
  return count;
}

/// Accepts connections, as the kernel does, but never sends anything.
class Mute {
 public:
  Mute() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(socket_, at, length) == 0);
    REQUIRE(listen(socket_, 8) == 0);
    REQUIRE(getsockname(socket_, at, &length) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~Mute() { close(socket_); }
  std::string store() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

 private:
  const int socket_ = socket(AF_INET, SOCK_STREAM, 0);
  int port_ = 0;
};

}  // namespace

TEST_CASE("start stop: a token that has been told before ends it at once", "[comm]") {
  std::stop_source source;
  source.request_stop();
  CHECK(message_of([&] { Communicator::create(make_inproc_store(), 0, 1, stopped_by(source)); }) ==
        "aborted: start-up was ended by its stop token (start_stop)");
}

TEST_CASE("start stop: while the store is not there, or does not answer", "[comm]") {
  std::string nowhere;
  {
    const auto server = serve_tcp_store();
    nowhere = "tcp://" + server->address();
  }
  const Mute mute;
  for (const auto& store : {nowhere, mute.store()}) {
    CAPTURE(store);
    CHECK(ended([&](const auto& options) {
            Communicator::create(environment_at(store, 1), options);
          }) == "aborted: start-up was ended by its stop token (start_stop)");
  }
}

TEST_CASE("start stop: while other ranks are missing, at every kind of store", "[comm]") {
  const testing::Directory directory;
  const auto server = serve_tcp_store();
  const std::vector<std::function<std::shared_ptr<Store>()>> stores = {
      [] { return make_inproc_store(); }, [&] { return make_file_store(directory.file("store")); },
      [&] { return make_prefix_store(connect_tcp_store(server->address()), "prefix/"); }};
  for (const auto& make : stores)
    for (const int rank : {0, 1, 2}) {
      CAPTURE(&make - stores.data(), rank);
      const auto store = make();
      CHECK_THAT(ended([&](const auto& options) { Communicator::create(store, rank, 3, options); }),
                 Contains("aborted: ") && Contains("stop token of rank "));
    }
}

TEST_CASE("start stop: of ranks with an id, and of those that a process has all", "[comm]") {
  const auto id = UniqueId::create();
  CHECK_THAT(ended([&](const auto& options) { Communicator::create(id, 1, 3, options); }),
             Contains("aborted: "));
  const std::vector<int> some = {0, 2};
  CHECK_THAT(ended([&](const auto& options) {
               Communicator::create_all(UniqueId::create(), some, 3, options);
             }),
             Contains("aborted: "));
}

TEST_CASE("start stop: the ranks that have met the one that ends it hear so", "[comm]") {
  const auto store = make_inproc_store();
  std::stop_source source, never;
  std::vector<std::string> texts(2);
  Clock::time_point stopped;
  const auto said = logged([&](const Heard& log) {
    const std::jthread stopper([&] {
      // Rank 0 knows that they have met, and says so.
      static_cast<void>(eventually([&] { return log.count("(known so far: ranks 0, 1)") > 0; }));
      stopped = Clock::now();
      source.request_stop();
    });
    const auto errors = run_threads(2, [&](int rank) {
      auto options = stopped_by(rank == 1 ? source : never);
      options.warn_after = 100ms;
      texts[static_cast<std::size_t>(rank)] =
          message_of([&] { Communicator::create(store, rank, 3, options); });
    });
    for (const auto& error : errors) CHECK(error == "");
  });
  CHECK(Clock::now() - stopped < kSoon);
  CHECK_THAT(said, Contains("(known so far: ranks 0, 1)"));
  for (const auto& text : texts)
    CHECK(text == "aborted: start-up: the stop token of rank 1 (start_stop) ended it");
}

TEST_CASE("start stop: nothing is left behind, and the same ranks can start again", "[comm]") {
  const auto server = serve_tcp_store();
  const auto store = connect_tcp_store(server->address());
  const auto meet = [&] {
    return run_threads(2, [&](int rank) {
      CommunicatorOptions options;
      options.start_timeout = 30s;
      Communicator::create(store, rank, 2, options).barrier();
    });
  };
  for (const auto& error : meet()) CHECK(error == "");
  const auto before = descriptors();
  for (int round = 0; round < 5; round++)
    ended([&](const auto& options) { Communicator::create(store, round % 2, 2, options); });
  CHECK(eventually([&] { return descriptors() <= before; }));
  for (const auto& error : meet()) CHECK(error == "");
}

TEST_CASE("start stop: a communicator that is there is ended by nothing of that", "[comm]") {
  const auto store = make_inproc_store();
  std::stop_source source;
  const auto errors = run_threads(3, [&](int rank) {
    auto world = Communicator::create(store, rank, 3, stopped_by(source));
    world.barrier();
    if (rank == 0) source.request_stop();
    world.barrier();
    auto half = world.split(rank % 2, 0);
    std::int32_t one = 1;
    half->all_reduce(std::span(&one, 1));
    world.duplicate().barrier();
    expect(one == (rank == 1 ? 1 : 2), "a sum is wrong");
  });
  for (const auto& error : errors) CHECK(error == "");
}
