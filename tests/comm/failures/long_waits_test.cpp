// SPDX-License-Identifier: Apache-2.0
// A call that waits long is reported once, with the ranks it waits for, and continues.
#include <catch2/catch.hpp>

#include "core/patience.hpp"
#include "rendezvous/open_store.hpp"
#include "support/eventually.hpp"
#include "support/kept_port.hpp"
#include "support/logged.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::count_of;
using testing::eventually;
using testing::expect;
using testing::Heard;
using testing::holds_at_last;
using testing::logged;
using testing::run_ranks;
using testing::run_threads;

namespace {

constexpr auto kWarnAfter = 400ms;
/// Long enough for a second report of a wait, which nobody may make.
constexpr auto kAgain = 2 * kWarnAfter;

CommunicatorOptions soon_told() {
  CommunicatorOptions options;
  options.name = "team";
  options.timeout = kNoLimit;
  options.warn_after = kWarnAfter;
  return options;
}

std::string said_by(int size, const CommunicatorOptions& options,
                    const std::function<void(Communicator&, const Heard&)>& body) {
  std::vector<std::string> errors;
  const auto text = logged([&](const Heard& log) {
    errors = run_ranks(size, options, [&](Communicator& each) { body(each, log); });
  });
  for (const auto& error : errors) CHECK(error == "");
  CAPTURE(text);
  return text;
}

/// Makes this rank late until the others have said so, and longer.
void be_late(const Heard& log, const std::string& said, int times = 1) {
  expect(eventually([&] { return log.count(said) >= times; }), "nobody says \"" + said + '"');
  testing::be_late(kAgain);
}

}  // namespace

TEST_CASE("long waits: a call is told of once on each rank that waits, with whom it misses",
          "[comm]") {
  const bool in_background = GENERATE(false, true);
  CAPTURE(in_background);
  const auto text_of_call = [&] {
    return said_by(3, soon_told(), [&](Communicator& team, const Heard& log) {
      std::vector<std::int64_t> values(1000, 1);
      team.all_reduce(values);
      if (team.rank() == 2) be_late(log, "has waited for", 2);
      const CallOptions options{.algorithm = "one_shot", .label = "gradients"};
      if (in_background) {
        auto work = team.all_reduce_async(values, ReduceOp::sum, options);
        if (team.rank() != 2) be_late(log, "has waited for", 2);
        work.wait();
      } else {
        team.all_reduce(values, ReduceOp::sum, options);
      }
      expect(values[7] == 9, "a sum is wrong");
    });
  };
  std::string text;
  // Rank 2 may be too busy to answer before the others tell of their waits.
  CHECK(holds_at_last([&] {
    text = text_of_call();
    return text.find("rank 2 had not reached this call (it began its last, call 0") != text.npos;
  }));
  for (const std::string rank : {"0", "1"}) {
    CAPTURE(rank, text);
    CHECK(count_of("on rank " + rank + " has waited for", text) == 1);
  }
  CHECK(count_of("on rank 2 has waited for", text) == 0);
  CHECK_THAT(text, Contains("\"gradients\": team: all_reduce of 1000 int64, sum, by one_shot (call "
                            "1, \"gradients\") on rank 0 has waited for"));
}

TEST_CASE("long waits: a negative limit is refused", "[comm]") {
  auto options = soon_told();
  options.warn_after = -1ms;
  CHECK(testing::message_of([&] { Communicator::create(make_inproc_store(), 0, 1, options); }) ==
        "invalid_argument: a warn_after of -1 ms; it must be 0 or more");
}

TEST_CASE("long waits: start-up says who is missing, again and again", "[comm]") {
  const auto store = make_inproc_store();
  auto options = soon_told();
  options.start_timeout = 60s;
  std::vector<std::string> errors;
  const auto text = logged([&](const Heard& log) {
    errors = run_threads(3, [&](int rank) {
      if (rank == 1) be_late(log, "1 of 3 ranks did not come within", 2);
      Communicator::create(store, rank, 3, options).barrier();
    });
  });
  for (const auto& error : errors) CHECK(error == "");
  CAPTURE(text);
  CHECK(count_of("1 of 3 ranks did not come within", text) >= 2);
  CHECK_THAT(text, Contains(": rank 1 (known so far: ranks 0, 2); rank 0 keeps waiting"));
  CHECK(count_of("rank 2 keeps waiting", text) == 0);
}

TEST_CASE("long waits: a start-up is reported after 10 s at the latest", "[comm]") {
  CHECK(Patience{{}, 60s}.first_warning() == 10s);
  CHECK(Patience{{}, 400ms}.first_warning() == 400ms);
}

TEST_CASE("long waits: a store that is not there", "[comm]") {
  Environment environment;
  environment.rank = 1;
  environment.size = 2;
  const testing::KeptPort port;
  environment.store = "tcp://" + port.address();
  auto options = soon_told();
  options.start_timeout = 3 * kWarnAfter;
  const auto text = logged([&] {
    CHECK_THAT(testing::message_of([&] { Communicator::create(environment, options); }),
               Contains("is rank 0 running?"));
  });
  CHECK_THAT(text, Contains("start-up: no store at " + environment.store.substr(6) +
                            " for 0.4 s (connection refused): is rank 0 running?"));
}

TEST_CASE("long waits: a store whose name has no address", "[comm]") {
  // A name so long needs no name service to be wrong.
  const auto address = std::string(64, 'a') + ":99";
  const auto text = logged([&] {
    const HavingPatience patience({{}, kWarnAfter});
    CHECK(testing::message_of([&] { connect_tcp_store(address, "secret", 3 * kWarnAfter); }) != "");
  });
  CHECK_THAT(text, Contains("no store at " + address + " for 0.4 s (host not found") &&
                       Contains("): is rank 0 running?"));
}

TEST_CASE("long waits: an id's store where nobody listens", "[comm]") {
  const testing::KeptPort port;
  const auto text = logged([&] {
    const HavingPatience patience({{}, kWarnAfter});
    const auto store = open_store_of_id(port.address(), "", 3 * kWarnAfter, {});
    REQUIRE(!store);
    CHECK_THAT(store.error().message, Contains("or is the id an earlier run's?"));
  });
  CHECK_THAT(text, Contains("no store at " + port.address() +
                            " for 0.4 s (connection refused): "
                            "this rank's id names that address"));
}
