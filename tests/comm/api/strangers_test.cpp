// SPDX-License-Identifier: Apache-2.0
// Strangers that connect to a running job change nothing but a counter.
#include <asio/local/stream_protocol.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <filesystem>
#include <future>
#include <numeric>
#include <optional>

#include "ccoll/ccoll.hpp"
#include "control/wire.hpp"
#include "net/pending_handshakes.hpp"
#include "support/eventually.hpp"
#include "support/ranks.hpp"
#include "support/strangers.hpp"
#include "transport/shm/door.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

constexpr int kSize = 3;
constexpr const char* kToken = "the token of this job alone";
/// The calls that must complete correctly while strangers do one thing.
constexpr std::uint64_t kRoundsBeside = 50;

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

/// Ranks that reduce and check the result until told to stop.
class Job {
 public:
  explicit Job(const char* transport) {
    auto options = options_for(transport);
    options.token = kToken;
    store_ = make_inproc_store();
    ranks_ = std::async(std::launch::async, [this, options] {
      return run_threads(kSize, [&](int rank) {
        auto world = Communicator::create(store_, rank, kSize, options);
        while (round(world)) {
        }
      });
    });
    for (std::uint32_t rank = 0; rank < kSize; rank++)
      addresses_.push_back(control::decode_key(store_->get(control::key_of(rank)))->address);
  }
  ~Job() {
    if (ranks_.valid()) end();
  }
  Job(const Job&) = delete;

  const PeerAddress& address(std::size_t rank) const { return addresses_[rank]; }
  const std::vector<PeerAddress>& addresses() const { return addresses_; }
  tcp::endpoint endpoint(std::size_t rank) const {
    return {asio::ip::address_v4::loopback(), addresses_[rank].port};
  }
  /// Whether this many more calls complete.
  bool goes_on() {
    const auto from = rounds_.load();
    return eventually([&] { return rounds_ >= from + kRoundsBeside; });
  }
  /// The errors that each rank has met.
  std::vector<std::string> end() {
    ending_ = true;
    return ranks_.get();
  }

 private:
  bool round(Communicator& world) {
    std::vector<std::int64_t> mine(1000), sum(1000);
    std::iota(mine.begin(), mine.end(), world.rank());
    mine[0] = world.rank() == 0 && ending_;
    world.all_reduce(mine, sum);
    for (std::size_t i = 1; i < sum.size(); i++)
      expect(sum[i] == static_cast<std::int64_t>(kSize * i) + kSize * (kSize - 1) / 2,
             "a wrong sum");
    if (world.rank() == 0) rounds_++;
    return sum[0] == 0;
  }

  std::shared_ptr<Store> store_;
  std::vector<PeerAddress> addresses_;
  std::atomic<bool> ending_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::future<std::vector<std::string>> ranks_;
};

/// Half of the descriptors: listeners let waiting connections take only a quarter of all.
std::size_t half_open_connections() {
  const auto descriptors = raise_descriptor_limit();
  return std::min<std::size_t>(by_effort(1000, 10000, 10000), descriptors / 2);
}

}  // namespace

TEST_CASE("strangers: scans, garbage and hellos that come again leave a job as it is",
          "[comm][hostile]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::minstd_rand random(seed);
  for (const char* transport : {"tcp", "shm"}) {
    CAPTURE(transport);
    Job job(transport);
    REQUIRE(job.goes_on());
    const auto before = ccoll::strangers();
    const auto hello = recorded_hello(job.endpoint(1), kToken);
    REQUIRE_FALSE(hello.empty());
    constexpr std::uint64_t kEach = 100;
    for (std::uint64_t i = 0; i < kEach; i++) {
      for (std::size_t rank = 0; rank < kSize; rank++) {
        const Stranger scan(job.endpoint(rank));
        CHECK(scan.connected());
        Stranger garbage(job.endpoint(rank));
        garbage.say(random_bytes(random, 3000));
      }
    }
    for (int i = 0; i < 10; i++) {
      Stranger again(job.endpoint(1));
      again.say(hello);
      again.end();
      const auto answer = again.hear(5000);
      REQUIRE(answer.size() == 44);
      CHECK(answer.back() != 0);
    }
    CHECK(job.goes_on());
    const auto all = before.refused + 2 * kSize * kEach + 10;
    CHECK(eventually([&] { return ccoll::strangers().refused >= all; }));
    // Each counts once; another program's stray connection may have come, too.
    CHECK(ccoll::strangers().refused < all + kEach);
    CHECK(job.end() == std::vector<std::string>(kSize));
  }
}

TEST_CASE("strangers: thousands that say nothing, or little at a time, hold up nobody",
          "[comm][hostile][stress]") {
  const auto many = half_open_connections();
  Job job("tcp");
  REQUIRE(job.goes_on());
  const auto before = ccoll::strangers();
  const auto descriptors = open_descriptors();
  {
    std::deque<Stranger> silent;
    for (std::size_t i = 0; i < many; i++) {
      silent.emplace_back(job.endpoint(i % kSize));
      REQUIRE(silent.back().connected());
      // Some are slow: they send one byte of a valid hello.
      if (i % 10 == 0) silent.back().say("c");
    }
    CHECK(job.goes_on());
    // A valid newcomer is still served.
    for (std::size_t rank = 0; rank < kSize; rank++)
      CHECK(greet(job.endpoint(rank), kToken).has_value());
    CHECK(open_descriptors() <= descriptors + many + kSize * net::PendingHandshakes::limit() + 64);
    for (auto& each : silent) each.say("c");
    CHECK(job.goes_on());
  }
  CHECK(eventually([&] { return ccoll::strangers().refused >= before.refused + many; }));
  CHECK(job.goes_on());
  CHECK(job.end() == std::vector<std::string>(kSize));
  CHECK(eventually([&] { return open_descriptors() <= descriptors; }));
}

TEST_CASE("strangers: those at the door of shared memory hold up nobody", "[comm][hostile]") {
  Job job("shm");
  REQUIRE(job.goes_on());
  const auto before = ccoll::strangers();
  // A tenth of these are soon refused.
  const std::size_t many = net::PendingHandshakes::limit() * 3 / 2;
  {
    asio::io_context context;
    std::deque<asio::local::stream_protocol::socket> silent;
    for (std::size_t i = 0; i < many; i++) {
      silent.emplace_back(context).connect(shm::door_name(job.addresses(), 0));
      if (i % 10 == 0) silent.back().write_some(asio::buffer("garbage at the door", 19));
    }
    CHECK(job.goes_on());
    CHECK(eventually([&] { return ccoll::strangers().evicted > before.evicted; }));
  }
  CHECK(eventually([&] { return ccoll::strangers().refused >= before.refused + many; }));
  CHECK(job.goes_on());
  CHECK(job.end() == std::vector<std::string>(kSize));
}
