// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/group.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>

namespace ccoll::test {

TEST_CASE("group: ranks of the job and of the communicator lead to each other",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 500; trial++) {
    std::vector<std::uint32_t> job(1 + random() % 40);
    std::iota(job.begin(), job.end(), 0U);
    if (random() % 4 > 0) std::ranges::shuffle(job, random);
    job.resize(1 + random() % job.size());
    const auto own = static_cast<Rank>(random() % job.size());
    const Group group(job, job[own]);
    CAPTURE(job, own);
    REQUIRE(group.rank() == own);
    REQUIRE(group.size() == job.size());
    bool as_job = true;
    for (std::uint32_t each = 0; each < 50; each++) {
      const auto found = group.rank_of(each);
      const auto place = std::ranges::find(job, each) - job.begin();
      REQUIRE(found.has_value() == (place < std::ssize(job)));
      if (!found) continue;
      CHECK(*found == place);
      CHECK(group.job_rank(*found) == each);
      as_job &= *found == each;
    }
    CHECK(group.numbered_as_job() == as_job);

    const auto neighbours = group.ring_neighbours();
    const std::set<std::uint32_t> others(neighbours.begin(), neighbours.end());
    CHECK(others.size() == neighbours.size());
    CHECK(others.size() == std::min<std::size_t>(job.size() - 1, 2));
    for (const auto each : others) {
      const auto apart = (*group.rank_of(each) + group.size() - own) % group.size();
      CHECK((apart == 1 || apart == group.size() - 1));
    }
  }
}

}  // namespace ccoll::test
