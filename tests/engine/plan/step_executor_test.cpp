// SPDX-License-Identifier: Apache-2.0
// Whether a step runs, and what it does with its links, over places that hold no data.
#include "engine/plan/step_executor.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/plan/execute.hpp"
#include "engine/plan/fake_links.hpp"
#include "engine/reading.hpp"

using namespace ccoll;

namespace {

/// Places of a step that receives, combines, stores and sends 8 bytes.
class Places {
 public:
  static constexpr bool kMayFold = false;

  Places(const PlanRun& run, const ReadyStep& step, test::Calls& calls)
      : run_(run), step_(step), calls_(calls) {}

  const PlanRun& run() const { return run_; }
  const ReadyStep& step() const { return step_; }
  const std::vector<ReceiveLink*>& receives() const { return step_.receives; }
  const std::vector<SendLink*>& sends() const { return step_.sends; }
  Reading reading() const { return Reading(step_.receives); }
  std::size_t bytes() const { return 8; }
  SliceHeader header() const { return {run_.sequence, run_.signature, 8, 0}; }
  Copier copier() const { return Copier::receiver; }
  void offer() const {}
  void lacks(std::size_t link) { lacked.push_back(link); }
  void add_source(std::size_t, const std::byte*) const {}
  void begin() { calls_.push_back("begin"); }
  bool stores() const { return true; }
  bool lends() const { return lends_input_; }
  bool lends_input() const { return lends_input_; }
  const std::byte* lent() const { return lends_input_ ? &data_ : nullptr; }
  void make(std::byte*) { calls_.push_back("make"); }
  void copy_made(const std::byte*, std::byte*) { calls_.push_back("copy"); }
  void end() { calls_.push_back("end"); }

  std::vector<std::size_t> lacked;
  bool lends_input_ = false;

 private:
  const PlanRun& run_;
  const ReadyStep& step_;
  test::Calls& calls_;
  std::byte data_{};
};

/// Rank 0 of 3: it receives from ranks 1 and 2, and sends to rank 1.
struct Rank0 {
  Rank0() {
    step.receives = {&one, &two};
    step.from = {1, 2};
    step.sends = {&out};
    step.to = {1};
  }
  static PlanRequest request() {
    PlanRequest request;
    request.problem.size = 3;
    request.type = DataType::float32;
    return request;
  }
  ReceiveLink::View slice(std::uint64_t sequence, std::uint32_t bytes = 8) const {
    return {SliceHeader{sequence, run.signature, bytes, 0}, nullptr, false};
  }
  void arrive() {
    one.view = slice(run.sequence);
    two.view = slice(run.sequence);
    calls.clear();
  }

  test::Calls calls;
  test::FakeReceiveLink one{calls, "one"}, two{calls, "two"};
  test::FakeSendLink out{calls, "out"};
  ReadyStep step;
  PlanRun run;
  const BlockLayout layout{request()};
  StepExecutor executor{layout, {{&out, 1}}};
  Places places{run, step, calls};
};

}  // namespace

TEST_CASE("step executor: a step waits for all its links, and looks at each", "[engine][unit]") {
  Rank0 rank;
  rank.out.room_left = false;
  CHECK(rank.executor.execute(rank.places) == Polled::waits);
  CHECK(rank.calls == test::Calls{"one front", "two front"});
  CHECK(rank.places.lacked == std::vector<std::size_t>{0, 1});
  rank.arrive();
  CHECK(rank.executor.execute(rank.places) == Polled::waits);
  // Room counts as lacking only where all slices have come.
  CHECK(rank.places.lacked == std::vector<std::size_t>{0, 1, 2});
  rank.out.room_left = true;
  rank.calls.clear();
  CHECK(rank.executor.execute(rank.places) == Polled::moved);
  CHECK(rank.calls == test::Calls{"one front", "two front", "begin", "make", "copy", "one pop",
                                  "two pop", "out push", "end"});
  CHECK(rank.executor.owes());
}

TEST_CASE("step executor: input that is lent leaves before its copy is made", "[engine][unit]") {
  Rank0 rank;
  rank.arrive();
  rank.places.lends_input_ = true;
  CHECK(rank.executor.execute(rank.places) == Polled::moved);
  CHECK(rank.calls == test::Calls{"one front", "two front", "begin", "out lend", "make", "one pop",
                                  "two pop", "end"});
}

TEST_CASE("step executor: one copy of a slice serves all links that can take it",
          "[engine][unit]") {
  Rank0 rank;
  test::FakeSendLink other{rank.calls, "other"};
  std::array<std::byte, 8> shared{std::byte{5}};
  rank.step.sends = {&rank.out, &other};
  rank.step.to = {1, 2};
  rank.out.shared = shared.data();
  rank.arrive();
  CHECK(rank.executor.execute(rank.places) == Polled::moved);
  CHECK(rank.calls == test::Calls{"one front", "two front", "begin", "make", "copy", "one pop",
                                  "two pop", "out push shared", "other push shared", "end"});
  // A link that cannot take it has a copy of its own.
  other.takes_shared = false;
  rank.arrive();
  CHECK(rank.executor.execute(rank.places) == Polled::moved);
  CHECK(rank.calls.end()[-2] == "other push");
  CHECK(other.memory[0] == std::byte{5});
}

TEST_CASE("step executor: pushed slices go before received ones are looked for", "[engine][unit]") {
  Rank0 rank;
  rank.arrive();
  REQUIRE(rank.executor.execute(rank.places) == Polled::moved);
  rank.out.is_drained = false;
  rank.calls.clear();
  REQUIRE(rank.executor.execute(rank.places) == Polled::moved);
  CHECK(rank.calls[0] == "out progress");
  // The peer has taken everything before it left.
  rank.out.is_drained = true;
  rank.out.failed = Failure{ErrorKind::peer_lost, "gone", 1};
  CHECK(rank.executor.flush() == Polled::waits);
  CHECK_FALSE(rank.executor.owes());
}

TEST_CASE("step executor: a slice of another call is told before a peer that has gone",
          "[engine][unit]") {
  Rank0 rank;
  rank.arrive();
  rank.two.view = rank.slice(rank.run.sequence + 1);
  rank.out.room_left = false;
  rank.out.failed = Failure{ErrorKind::peer_lost, "gone", 1};
  CHECK(rank.executor.execute(rank.places) == Polled::failed);
  CHECK(rank.executor.take_failure().kind == ErrorKind::mismatch);
  REQUIRE(rank.executor.different());
  CHECK(rank.executor.different()->rank == 2);
  CHECK(rank.executor.different()->sequence == rank.run.sequence + 1);

  rank.two.view = rank.slice(rank.run.sequence, 12);  // the same call, but other sizes
  CHECK(rank.executor.execute(rank.places) == Polled::failed);
  CHECK_THAT(rank.executor.take_failure().message,
             Catch::Contains("rank 2 sends 3 elements to rank 0, which expects 2"));

  rank.two.view = rank.slice(rank.run.sequence);
  CHECK(rank.executor.execute(rank.places) == Polled::failed);
  CHECK(rank.executor.take_failure().message == "gone");
}

TEST_CASE("step executor: what a peer takes back is not passed on", "[engine][unit]") {
  Rank0 rank;
  rank.arrive();
  rank.two.is_owned = false;
  CHECK(rank.executor.execute(rank.places) == Polled::failed);
  CHECK(rank.executor.take_failure().message ==
        "rank 2 withdrew its data, because its call had failed");
  CHECK(rank.calls == test::Calls{"one front", "two front", "begin", "one pop"});
}
