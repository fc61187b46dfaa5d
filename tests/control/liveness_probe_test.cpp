// SPDX-License-Identifier: Apache-2.0
// Liveness probes: few at a time, all ranks in turn, and no dead rank delays another's probe.
#include <poll.h>

#include <catch2/catch.hpp>
#include <climits>
#include <numeric>

#include "harness.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;

/// Replaces a member's listener: it accepts connections but never answers.
class Deaf {
 public:
  explicit Deaf(Member& member) : acceptor_(context_) {
    const auto at = member.listener->endpoint();
    member.listener.reset();
    acceptor_.open(at.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(at);
    acceptor_.listen();
    acceptor_.non_blocking(true);
  }

  /// Accepts the waiting connections.
  void take() {
    asio::error_code error;
    for (;;) {
      tcp::socket socket(context_);
      acceptor_.accept(socket, error);
      if (error) break;
      asked_++;
      open_.push_back(std::move(socket));
    }
  }
  /// Drops closed connections.
  void drop() {
    std::erase_if(open_, [](tcp::socket& socket) {
      pollfd ended{socket.native_handle(), POLLRDHUP, 0};
      return ::poll(&ended, 1, 0) > 0;
    });
  }
  std::size_t open() const { return open_.size(); }
  int asked() const { return asked_; }

 private:
  asio::io_context context_;
  tcp::acceptor acceptor_;
  std::vector<tcp::socket> open_;
  int asked_ = 0;
};

}  // namespace

TEST_CASE("thousands of ranks are looked for a few at a time, in turn", "[control]") {
  constexpr std::uint32_t kSize = 75;
  constexpr std::size_t kMostAtOnce = 32;
  // A rank waits for an answer for half of its heartbeat limit.
  CountingStore store;
  std::vector<Member> members;
  for (std::uint32_t rank = 0; rank < kSize; rank++)
    members.push_back(make_member(rank, kSize, 60s, job_token(), net::Service::shared(),
                                  rank == 0 ? 4000ms : 0ms));
  std::vector<std::thread> threads;
  for (Member& member : members)
    threads.emplace_back([&] { member.joined = member.control->join(store); });
  for (auto& thread : threads) thread.join();
  for (const Member& member : members) REQUIRE(member.joined);

  // Rank 0 is connected to the first two ranks and the last.
  std::vector<std::uint32_t> ranks(kSize - 4);
  std::iota(ranks.begin(), ranks.end(), 3u);
  std::vector<std::unique_ptr<Deaf>> deaf;
  for (const std::uint32_t rank : ranks) deaf.push_back(std::make_unique<Deaf>(members[rank]));
  std::size_t most = 0;
  const bool all_asked_twice = eventually(
      [&] {
        // A waiting rank probes again and again.
        members[0].control->probe(ranks);
        std::size_t open = 0;
        int fewest = INT_MAX, oftenest = 0;
        for (const auto& each : deaf) {
          each->take();
          oftenest = std::max(oftenest, each->asked());
        }
        // All that were accepted and are still open were open at the same moment.
        for (const auto& each : deaf) {
          each->drop();
          open += each->open();
          each->take();
          fewest = std::min(fewest, each->asked());
        }
        CHECK(oftenest <= fewest + 2);  // in turn; one more for those that arrive meanwhile
        most = std::max(most, open);
        return fewest >= 2;
      },
      60s);
  CHECK(all_asked_twice);
  CHECK(most <= kMostAtOnce);
  CHECK(most >= kMostAtOnce / 2);
}

TEST_CASE("a rank that has gone is made known in time, whoever else goes after it", "[control]") {
  constexpr std::uint32_t kSize = 40;
  CountingStore store;
  auto members = join_all(kSize, store);
  const auto ear = std::make_shared<Recorder>();
  members[0].control->subscribe(1, ear);
  // The listeners close one after another, faster than one probe times out.
  std::uint32_t rank = 3;
  for (; rank < kSize - 1 && ear->departures().empty(); rank++) {
    members[rank].listener.reset();
    members[0].control->probe({rank});
    ear->wait_for(0, 1, 250ms);
  }
  REQUIRE_FALSE(ear->departures().empty());
  CHECK(ear->departures().front() == 3);
  CHECK(rank < kSize - 1);  // before the last was closed
}

}  // namespace ccoll::testing
