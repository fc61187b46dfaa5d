// SPDX-License-Identifier: Apache-2.0
// Repeated start-ups at the same keys of the same store.
#include <catch2/catch.hpp>
#include <future>
#include <random>
#include <set>

#include "harness.hpp"
#include "support/real_time.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kLargest = 5;

/// A start-up's members are kept, leave or are destroyed once the next has begun.
enum class Earlier { kept, left, gone };

/// One rank's part in all start-ups, in order, each delayed by up to 20 ms.
std::vector<Member> take_part(std::uint32_t rank, const std::vector<std::uint32_t>& sizes,
                              Store& store, std::uint32_t seed, Earlier earlier) {
  std::mt19937 random(seed + rank);
  std::vector<Member> members;
  for (const std::uint32_t size : sizes) {
    if (rank >= size) {
      members.emplace_back();
      continue;
    }
    be_late(milliseconds(random() % 20));
    members.push_back(make_member(rank, size, 30s));
    members.back().joined = members.back().control->join(store);
    if (earlier != Earlier::kept) members.back().control->leave();
    if (earlier == Earlier::gone) members.back().listener.reset();
  }
  return members;
}

}  // namespace

TEST_CASE("ranks meet again and again at one store, whatever became of the earlier start-ups",
          "[control]") {
  const Earlier earlier = GENERATE(Earlier::kept, Earlier::left, Earlier::gone);
  const auto seed = std::random_device{}();
  CAPTURE(seed, static_cast<int>(earlier));
  std::vector<std::uint32_t> sizes;
  for (std::size_t i = 0; i < 20; ++i) sizes.push_back(std::array{2u, 3u, 5u}[(i + i / 6) % 3]);
  CountingStore store;
  const auto start = Clock::now();
  std::vector<std::future<std::vector<Member>>> threads;
  for (std::uint32_t rank = 0; rank < kLargest; ++rank)
    threads.push_back(std::async(std::launch::async, take_part, rank, std::cref(sizes),
                                 std::ref(store), seed, earlier));
  std::vector<std::vector<Member>> ranks;
  for (auto& thread : threads) ranks.push_back(thread.get());
  CHECK(Clock::now() - start < 20s);
  CHECK(store.keys() == kLargest);

  std::set<std::uint64_t> jobs;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CAPTURE(i, sizes[i]);
    for (std::uint32_t rank = 0; rank < sizes[i]; ++rank) {
      CAPTURE(rank);
      const Member& member = ranks[rank][i];
      INFO((member.joined ? std::string() : member.joined.error().message));
      REQUIRE(member.joined);
      CHECK(member.control->job() == ranks[0][i].control->job());
      CHECK(member.control->table() == ranks[0][i].control->table());
      CHECK(member.control->table()[rank].device == rank);
      if (earlier != Earlier::gone)
        CHECK(member.control->table()[rank].port == member.listener->endpoint().port());
    }
    CHECK(jobs.insert(ranks[0][i].control->job()).second);
  }
}

}  // namespace ccoll::testing
