// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/collectives.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace ccoll {
namespace {

using Catch::Matchers::Contains;

/// A stream step that a test reaches.
class Gate final : public device::StreamOp {
 public:
  Status enqueue(std::shared_ptr<device::StreamListener> /*listener*/) override { return {}; }
  bool reached() const override { return is_reached; }
  bool passed() const override { return is_reached; }
  Status trouble() const override { return {}; }
  std::byte* on_host(const void* /*place*/, std::size_t /*part*/) const override { return nullptr; }
  void release() override {}

  bool is_reached = false;
};

/// Puts a call where it belongs, as the communicator does; returns it.
Collectives::Pointer add(Collectives& collectives, bool is_from_graph = false,
                         std::shared_ptr<Gate> gate = nullptr) {
  auto operation = std::make_shared<CollectiveOperation>();
  const auto place = collectives.place_for(is_from_graph);
  operation->is_numbered = gate == nullptr && collectives.is_numbered_before(place);
  operation->run.sequence =
      operation->is_numbered ? collectives.take_number() : collectives.likely_number(place);
  operation->gate = std::move(gate);
  collectives.insert(place, operation);
  return operation;
}

std::vector<std::uint64_t> numbers_in(const Collectives& collectives) {
  std::vector<std::uint64_t> numbers;
  for (const auto& each : collectives) numbers.push_back(each->run.sequence);
  return numbers;
}

}  // namespace

TEST_CASE("collectives: calls are numbered and end in their order", "[comm][unit]") {
  Collectives collectives;
  CHECK(collectives.empty());
  CHECK(collectives.first_open() == 0);
  const auto first = add(collectives);
  const auto second = add(collectives);
  CHECK(collectives.size() == 2);
  CHECK(collectives.next_number() == 2);
  CHECK(collectives.first_open() == 0);
  CHECK(collectives.front() == first);
  CHECK(collectives.take_front() == first);
  CHECK(collectives.first_open() == 1);
  CHECK(collectives.take_front() == second);
  CHECK(collectives.empty());
  CHECK(collectives.first_open() == 2);
  CHECK(collectives.finished() == 2);
}

TEST_CASE("collectives: a call behind one that its stream holds back has no number yet",
          "[comm][unit]") {
  Collectives collectives;
  const auto gate = std::make_shared<Gate>();
  add(collectives);
  const auto held_back = add(collectives, false, gate);
  const auto behind = add(collectives);
  CHECK(numbers_in(collectives) == std::vector<std::uint64_t>{0, 1, 2});
  CHECK_FALSE(held_back->is_numbered);
  CHECK_FALSE(behind->is_numbered);
  CHECK(collectives.next_number() == 1);
}

TEST_CASE("collectives: a graph's call goes before those that streams hold back", "[comm][unit]") {
  Collectives collectives;
  const auto gate = std::make_shared<Gate>();
  add(collectives);
  add(collectives, false, gate);
  const auto from_graph = add(collectives, true);
  CHECK(from_graph->is_numbered);
  CHECK(from_graph->run.sequence == 1);
  CHECK(*(collectives.begin() + 1) == from_graph);
  // Once the stream has reached its call, that one keeps its place.
  gate->is_reached = true;
  const auto next = add(collectives, true);
  CHECK(*(collectives.begin() + 3) == next);
  CHECK_FALSE(next->is_numbered);
}

TEST_CASE("collectives: only a first call that has started can move", "[comm][unit]") {
  Collectives collectives;
  CHECK(collectives.started() == nullptr);
  const auto first = add(collectives);
  const auto second = add(collectives);
  second->started = true;
  CHECK(collectives.started() == nullptr);
  first->started = true;
  CHECK(collectives.started() == first.get());
}

TEST_CASE("collectives: a first call without a number is not among the finished", "[comm][unit]") {
  Collectives collectives;
  add(collectives);
  collectives.take_front();
  const auto refused = add(collectives, false, std::make_shared<Gate>());
  refused->run.sequence = 7;
  CHECK(collectives.finished() == 1);
  refused->is_numbered = true;
  CHECK(collectives.finished() == 7);
}

TEST_CASE("collectives: all end with the failure that each of them gets", "[comm][unit]") {
  Collectives collectives;
  const auto first = add(collectives);
  const auto second = add(collectives);
  first->label = "a";
  second->label = "b";
  collectives.end_all([](const CollectiveOperation& each) {
    return Failure{ErrorKind::aborted, "the end of " + each.label, std::nullopt};
  });
  CHECK(collectives.empty());
  CHECK(first->done);
  CHECK(first->failure->message == "the end of a");
  CHECK(second->failure->message == "the end of b");
}

TEST_CASE("collectives: two threads are not blocked at once, and hear which calls meet",
          "[comm][unit]") {
  Collectives collectives;
  Call call;
  call.kind = Kind::barrier;
  call.count = 1;
  CHECK(collectives.alone(call));
  Signature signature;
  signature.kind = static_cast<std::uint8_t>(Kind::broadcast);
  SECTION("in a call with a number") {
    collectives.block({signature, 4});
    const auto alone = collectives.alone(call);
    REQUIRE_FALSE(alone);
    CHECK(alone.error().kind == ErrorKind::invalid_argument);
    CHECK_THAT(alone.error().message,
               Contains("broadcast") && Contains("(call 4)") && Contains("barrier was called"));
  }
  SECTION("in a call without one") {
    collectives.block({signature, std::nullopt});
    const auto alone = collectives.alone(call);
    REQUIRE_FALSE(alone);
    CHECK_THAT(alone.error().message, !Contains("(call"));
  }
  CHECK(collectives.is_blocking());
  collectives.unblock();
  CHECK_FALSE(collectives.is_blocking());
  {
    const Collectives::Blocked blocked(collectives, {signature, 4});
    CHECK_FALSE(collectives.alone(call));
  }
  CHECK_FALSE(collectives.is_blocking());
  CHECK(collectives.alone(call));
}

}  // namespace ccoll
