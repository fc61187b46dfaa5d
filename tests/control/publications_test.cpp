// SPDX-License-Identifier: Apache-2.0
// Which connection of a rank a publication takes.
#include "control/publications.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "control/parts.hpp"
#include "control/tree.hpp"

namespace ccoll::control {
namespace {

struct PublishingRank final : Flooding::Owner {
  PublishingRank(std::uint32_t own, std::uint32_t of) : rank(own), size(of) {}
  void lost(std::uint32_t /*rank*/) override {}
  void job_failed(const Failure& /*failure*/) override {}
  void gone() override {}

  /// The peers that have got a publication since the last call.
  std::vector<std::uint32_t> told(const std::set<std::uint32_t>& peers) {
    context.restart();
    context.poll();
    std::vector<std::uint32_t> got;
    for (const auto peer : peers)
      for (const auto type : wires.got(peer))
        if (type == Type::waiting) got.push_back(peer);
    return got;
  }

  const std::uint32_t rank, size;
  asio::io_context context;
  const std::shared_ptr<TaskOwner> owner = std::make_shared<TaskOwner>(context);
  Wires wires{context, rank, size};
  News news{size};
  Flooding flooding{rank, size, news, wires.edges, owner->tasks, *this};
  Publications publications{rank, size, news, wires.edges, flooding};
};

}  // namespace

TEST_CASE("publications: each goes one way, by the tree or else ever nearer to its rank",
          "[unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 30; trial++) {
    const auto size = static_cast<std::uint32_t>(2 + random() % 30);
    PublishingRank one(static_cast<std::uint32_t>(random() % size), size);
    std::set<std::uint32_t> peers;
    for (std::uint32_t peer = 0; peer < size; peer++)
      if (peer != one.rank && random() % 3 == 0) peers.insert(peer);
    for (const auto peer : peers) one.wires.add(peer);
    for (std::uint32_t to = 0; to < size + 2; to++) {
      one.publications.publish({7, 1, {}}, {to});
      const auto told = one.told(peers);
      CAPTURE(size, one.rank, to, peers, told);
      CHECK(told.size() <= 1);
      if (to == one.rank || to >= size) {
        CHECK(told.empty());
      } else if (peers.contains(to)) {
        CHECK(told == std::vector{to});
      } else if (peers.contains(next_hop(one.rank, to))) {
        CHECK(told == std::vector{next_hop(one.rank, to)});
      } else {
        const auto apart = [to](std::uint32_t from) { return from < to ? to - from : from - to; };
        std::uint32_t nearest = one.rank;
        for (const auto peer : peers)
          nearest = std::min(nearest, peer, [&](auto a, auto b) { return apart(a) < apart(b); });
        CHECK(told.empty() == (nearest == one.rank));
        if (!told.empty()) CHECK(apart(told.front()) == apart(nearest));
      }
    }
  }
}

TEST_CASE("publications: one that has left the tree never goes back to it", "[unit]") {
  PublishingRank one(1, 8);
  const std::set<std::uint32_t> peers{0, 2};
  for (const auto peer : peers) one.wires.add(peer);
  // Rank 6 is below rank 2, which the tree reaches by rank 0.
  one.publications.route({0, 6, {7, 1, {}}});
  CHECK(one.told(peers) == std::vector{0U});
  one.publications.route({0, 6, {7, 1, {}}, true});
  CHECK(one.told(peers) == std::vector{2U});
}

}  // namespace ccoll::control
