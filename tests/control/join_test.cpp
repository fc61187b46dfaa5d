// SPDX-License-Identifier: Apache-2.0
// One caller's start-up, to whose store no other rank comes: what it makes of the store.
#include "control/join.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <stdexcept>

#include "harness.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;

/// A store that does as the test says.
class OddStore final : public SmallStore {
 public:
  std::function<void()> at_set = [] {};
  std::function<std::string()> at_get = []() -> std::string {
    throw Error(ErrorKind::timed_out, "no such key");
  };
  int times_tried = 0;

  void set(std::string_view, std::string_view, Timeout) override { at_set(); }
  std::string get(std::string_view, Timeout) override { return at_get(); }
  std::vector<std::string> list(std::string_view, Timeout) override { return {}; }
  bool compare_set(std::string_view, std::optional<std::string_view>, std::string_view,
                   Timeout) override {
    times_tried++;
    at_set();
    return false;
  }
};

Failure failure_of(std::uint32_t rank, Store& store, const Claim& claim = {}) {
  Member member =
      make_member(rank, 2, 1h, job_token(), net::Service::shared(), milliseconds(0), claim);
  const auto joined = member.control->join(store);
  REQUIRE_FALSE(joined);
  return joined.error();
}

}  // namespace

TEST_CASE("join: a store that does not take the address ends it at once, with the reason",
          "[control]") {
  const auto rank = GENERATE(0U, 1U);
  OddStore store;
  std::string why;
  SECTION("it fails") {
    store.at_set = [] { throw Error(ErrorKind::exhausted, "it is full"); };
    why = fmt::format("the store did not take the address of rank {}: it is full", rank);
  }
  SECTION("it throws an exception of its own") {
    store.at_set = [] { throw std::runtime_error("it is full"); };
    why = fmt::format("the store of rank {} threw an exception: it is full", rank);
  }
  CHECK(failure_of(rank, store).message == "start-up: " + why);
}

TEST_CASE("join: a store that does not tell of the parent ends it at once, with the reason",
          "[control]") {
  OddStore store;
  ErrorKind kind = ErrorKind::internal;
  std::string why;
  SECTION("it fails") {
    store.at_get = []() -> std::string { throw Error(ErrorKind::peer_lost, "it has gone"); };
    kind = ErrorKind::peer_lost;
    why = "the store failed while rank 1 asked for rank 0: it has gone";
  }
  SECTION("it throws an exception of its own") {
    store.at_get = []() -> std::string { throw std::runtime_error("it has gone"); };
    why = "the store of rank 1 threw an exception: it has gone";
  }
  SECTION("it has something else under that key") {
    store.at_get = [] { return std::string("10.0.0.1:29500"); };
    kind = ErrorKind::corrupt;
    why =
        "the store's key 'control/0' holds no address of this version of ccoll: do all ranks run "
        "the same build?";
  }
  const auto failure = failure_of(1, store);
  CHECK(failure.kind == kind);
  CHECK(failure.message == "start-up: " + why);
}

TEST_CASE("join: a key that others keep changing ends it at the limit", "[control]") {
  OddStore store;
  store.at_set = [] { skip(10min); };
  const auto failure = failure_of(0, store, {.is_whole_job = true});
  CHECK(failure.kind == ErrorKind::timed_out);
  CHECK(failure.message == "start-up: the key 'control/0' of the store keeps changing");
  CHECK(store.times_tried == 6);
}

}  // namespace ccoll::testing
