// SPDX-License-Identifier: Apache-2.0
// Jobs whose store and control connections use TLS, and ranks that disagree about it.
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <catch2/catch.hpp>
#include <future>
#include <mutex>

#include "ccoll/ccoll.hpp"
#include "control/join.hpp"
#include "control/wire.hpp"
#include "net/listener.hpp"
#include "support/certificates.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

constexpr int kSize = 4;
constexpr const char* kToken = "the token of this job";
const TlsOptions kPsk{"psk", {}, {}, {}, {}};
const TlsOptions kOff{"off", {}, {}, {}, {}};

CommunicatorOptions options_with(const TlsOptions& tls, const char* transport = "tcp") {
  auto options = options_for(transport);
  options.token = kToken;
  options.tls = tls;
  return options;
}

void sum_up(Communicator& world) {
  std::vector<std::int64_t> values(5000, world.rank());
  world.all_reduce(values, values);
  for (const auto value : values) expect(value == kSize * (kSize - 1) / 2, "a wrong sum");
}

/// The reason why a stranger with the token but without TLS is refused that rank's `purpose`.
std::string refusal(const PeerAddress& rank, net::Purpose purpose) {
  const auto service = net::Service::shared();
  const auto outcome = std::make_shared<std::promise<std::string>>();
  const auto task = [](std::shared_ptr<net::Service> on, std::string address, net::Purpose what,
                       std::shared_ptr<std::promise<std::string>> into) -> asio::awaitable<void> {
    const auto stream = co_await net::connect_once(on, address, kToken, what, 10s);
    into->set_value(stream ? "none" : stream.error().message);
  };
  asio::co_spawn(service->context(),
                 task(service, "127.0.0.1:" + std::to_string(rank.port), purpose, outcome),
                 asio::detached);
  return outcome->get_future().get();
}

}  // namespace

TEST_CASE("tls: a job works with a key from its token and with certificates", "[comm][tls]") {
  const Authority authority("authority");
  for (const bool by_certificate : {false, true}) {
    for (const char* transport : {"tcp", "shm"}) {
      const TlsOptions serving = by_certificate ? authority.issue("store") : kPsk;
      const auto server = serve_tcp_store({}, kToken, serving);
      std::mutex issuing;
      const auto errors = run_threads(kSize, [&](int rank) {
        TlsOptions mine = kPsk;
        if (by_certificate) {
          const std::lock_guard lock(issuing);
          mine = authority.issue("rank" + std::to_string(rank));
        }
        const auto store = connect_tcp_store(server->address(), kToken, 20s, mine);
        auto world = Communicator::create(store, rank, kSize, options_with(mine, transport));
        sum_up(world);
        auto half = world.split(rank % 2, 0);
        half->barrier();
        if (rank > 0) return;
        // Only control connections use TLS, data links do not.
        const auto row = control::decode_key(store->get(control::key_of(0)));
        expect(refusal(row->address, net::Purpose::link) == "none", "a link is refused");
        const auto why = refusal(row->address, net::Purpose::control);
        expect(why.find("asks for TLS, and this side has CCOLL_TLS=off") != why.npos, why);
      });
      CAPTURE(by_certificate, transport);
      for (const auto& error : errors) CHECK(error == "");
      CHECK(server->statistics().rejected == 0);
    }
  }
}

TEST_CASE("tls: an id's ranks meet with it", "[comm][tls]") {
  const auto id = UniqueId::create({}, kPsk);
  auto options = options_with(kPsk);
  options.token.clear();
  const auto errors = run_threads(kSize, [&](int rank) {
    auto world = Communicator::create(id, rank, kSize, options);
    sum_up(world);
  });
  for (const auto& error : errors) CHECK(error == "");
  const auto other = UniqueId::create({}, kPsk);
  options.tls = kOff;
  CHECK(message_of([&] { Communicator::create(other, 0, 2, options); }).find("asks for TLS") !=
        std::string::npos);
}

TEST_CASE("tls: where one rank has it not, all hear of it, and nobody waits beyond the limit",
          "[comm][tls]") {
  // They meet at an in-process store, so that only the control paths differ.
  const auto store = make_inproc_store();
  const auto start = std::chrono::steady_clock::now();
  const auto errors = run_threads(3, [&](int rank) {
    auto options = options_with(rank == 2 ? kOff : kPsk);
    options.start_timeout = 3s;
    Communicator::create(store, rank, 3, options);
  });
  CHECK(std::chrono::steady_clock::now() - start < 15s);
  CAPTURE(errors[0], errors[1], errors[2]);
  CHECK(errors[2].find("asks for TLS, and this side has CCOLL_TLS=off") != std::string::npos);
  CHECK(errors[0].find("rank 2") != std::string::npos);
  CHECK(errors[1].find("rank 2") != std::string::npos);
}

TEST_CASE("tls: the loss of a rank is told over it, and survivors go on", "[comm][tls]") {
  const auto store = make_inproc_store();
  std::vector<std::string> told(kSize);
  const auto errors = run_threads(kSize, [&](int rank) {
    auto options = options_with(kPsk);
    auto world = Communicator::create(store, rank, kSize, options);
    sum_up(world);
    if (rank == 1) return;
    told[static_cast<std::size_t>(rank)] = message_of([&] { sum_up(world); });
    auto rest = world.shrink();
    rest.barrier();
    expect(rest.size() == kSize - 1, "a wrong size");
  });
  for (const auto& error : errors) CHECK(error == "");
  for (const int rank : {0, 2, 3})
    CHECK(told[static_cast<std::size_t>(rank)].find("rank 1") != std::string::npos);
}
