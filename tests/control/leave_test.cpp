// SPDX-License-Identifier: Apache-2.0
// Ranks that leave in various ways, and what the remaining ranks hear of it and afterwards.
#include <asio/post.hpp>
#include <atomic>
#include <catch2/catch.hpp>

#include "harness.hpp"
#include "support/real_time.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;

}  // namespace

TEST_CASE("a goodbye is heard also when the service ends with the handler that said it",
          "[control]") {
  const bool speaks_first = GENERATE(false, true);
  CAPTURE(speaks_first);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    CountingStore store;
    constexpr std::uint32_t kSize = 4;
    std::vector<Member> members;
    for (std::uint32_t rank = 0; rank < kSize; ++rank)
      members.push_back(make_member(rank, kSize, 20s, job_token(), net::Service::dedicated()));
    std::vector<std::thread> joining;
    for (Member& member : members)
      joining.emplace_back([&] { member.joined = member.control->join(store); });
    for (std::thread& thread : joining) thread.join();
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (Member& member : members) {
      INFO((member.joined ? std::string() : member.joined.error().message));
      REQUIRE(member.joined);
      recorders.push_back(std::make_shared<Recorder>());
      member.control->subscribe(1, recorders.back());
    }
    // The others keep sending to the rank that leaves.
    std::atomic<bool> over = false;
    std::thread talking([&] {
      while (!over) {
        for (const std::size_t rank : {0, 2})
          members[rank].control->publish(Waiting{1, 1, {}}, {1});
        leave_time(100us);  // else messages pile up faster than they are sent
      }
    });
    {
      const std::shared_ptr<net::Service> service = members[1].service;
      asio::post(service->context(), [member = std::move(members[1]), speaks_first]() mutable {
        if (speaks_first) member.control->publish(Waiting{1, 1, {}}, {0, 2});
        member.listener.reset();
        member.control.reset();
        member.service.reset();
      });
    }
    bool heard = true;
    for (const std::size_t rank : {0, 2, 3}) heard = recorders[rank]->wait_for(0, 1, 5s) && heard;
    over = true;
    talking.join();
    CHECK(heard);
    for (const std::size_t rank : {0, 2, 3}) {
      CAPTURE(rank);
      CHECK(recorders[rank]->failures().empty());
      CHECK(recorders[rank]->departures() == std::vector<std::uint32_t>{1});
    }
  }
}

}  // namespace ccoll::testing
