// SPDX-License-Identifier: Apache-2.0
#include "show/compare.hpp"

#include "said.hpp"
#include "show/call.hpp"
#include "show/picture.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

/// With 10 us of latency and a byte in a nanosecond.
std::vector<double> ends(Kind kind, Algorithm algorithm, Rank size, std::uint64_t count) {
  CallWords words;
  words.operation = to_string(kind);
  words.algorithm = to_string(algorithm);
  words.ranks = size;
  words.count = count;
  const auto call = call_of(words);
  REQUIRE(call);
  LinkCosts links;
  links.latency_ns = 10'000;
  links.bandwidth_bytes_per_s = 1e9;
  return round_ends_us(picture_of(*call).rounds, 4, links);
}

TEST_CASE("cc-show compare: rounds last what the formulas say", "[show][unit]") {
  for (const Rank n : {2, 5, 8}) {
    // Blocks of 500 elements are 2 us.
    const std::vector<double> ring = ends(Kind::all_reduce, Algorithm::ring, n, 500 * n);
    REQUIRE(ring.size() == 2 * (n - 1));
    for (std::size_t i = 0; i < ring.size(); ++i) CHECK(ring[i] == Approx(12.0 * double(i + 1)));
    // Nobody waits for anything: the latency is there once.
    const std::vector<double> pairs = ends(Kind::all_to_all, Algorithm::pairwise, n, 500);
    REQUIRE(pairs.size() == n - 1);
    CHECK(pairs.back() == Approx(10 + 2.0 * (n - 1)));
    // The root sends all, and then receives nothing.
    CHECK(ends(Kind::scatter, Algorithm::linear, n, 500).back() == Approx(10 + 2.0 * (n - 1)));
    CHECK(ends(Kind::gather, Algorithm::linear, n, 500).back() == Approx(10 + 2.0 * (n - 1)));
  }
  // Who is alone sends nothing.
  CHECK(ends(Kind::all_reduce, Algorithm::ring, 1, 8) == std::vector<double>{0});
}

TEST_CASE("cc-show compare: figures of each algorithm, of any operation", "[show][unit]") {
  const std::string text = said({"compare", "ring", "double_tree", "-n", "8", "-c", "1000",
                                 "--latency", "10", "--bandwidth", "1"});
  CHECK_THAT(text, Contains("all_reduce by ring, double_tree: 8 ranks, 1000 elements"));
  CHECK_THAT(text, Contains("ring                      14         147.0"));
  CHECK_THAT(text, Contains("10 us"));
  CHECK_THAT(said({"compare", "broadcast", "binomial", "linear"}),
             Contains("broadcast by binomial, linear"));
}

TEST_CASE("cc-show compare: wrong usage is named", "[show][unit]") {
  CHECK_THAT(refused({"compare"}), Contains("NAMES"));
  CHECK_THAT(refused({"compare", "ring"}), Contains("two algorithms"));
  CHECK_THAT(refused({"compare", "broadcast", "ring"}), Contains("two algorithms"));
  CHECK_THAT(refused({"compare", "ring", "rinf"}), Contains("rinf"));
  CHECK_THAT(refused({"compare", "ring", "tree", "-o", "/nowhere/page.html"}),
             Contains("/nowhere/page.html"));
  CHECK_THAT(refused({"compare", "ring", "tree", "--bandwidth", "0"}), Contains("--bandwidth"));
}

}  // namespace
}  // namespace ccoll::show::test
