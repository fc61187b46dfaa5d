// SPDX-License-Identifier: Apache-2.0
// Ways and programs of devices that are made up here: no GPU, and no CUDA.
#include "comm/streams/device_programs.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "comm/parts.hpp"
#include "support/ranks.hpp"

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;
using ccoll::testing::run_threads;

/// Loads programs as the test has it.
class MadeUpWay final : public device::DeviceWay {
 public:
  using Program = std::shared_ptr<const device::DeviceProgram>;

  Result<std::shared_ptr<device::StreamOp>> stream_op(
      const device::StreamOpRequest& /*request*/) override {
    return fail(ErrorKind::unsupported, "no stream");
  }
  std::string_view name() const override { return "made up"; }
  Result<Program> load(const device::ProgramRequest& request) override {
    asked.push_back(request.choice);
    CCOLL_TRY(on_load());
    return Program(std::make_shared<device::DeviceProgram>());
  }
  bool is_entered_together() const override { return false; }
  void abort(const Failure& /*why*/) override {}
  bool is_aborted() const override { return false; }
  std::optional<Failure> cause() const override { return std::nullopt; }
  bool has_graph_under_way() const override { return false; }
  std::uint64_t held_bytes() const override { return 0; }

  std::vector<Choice> asked;
  std::function<Status()> on_load = [] { return Status(); };
};

/// Every rank has the same GPU.
PeerAddress on_one_gpu() {
  PeerAddress address;
  address.device = 9;
  return address;
}

CommunicatorOptions with_way(DeviceWay way) {
  CommunicatorOptions options;
  options.device.ordinal = kNoSuchGpu;
  options.device.way = way;
  return options;
}

/// Rank 0 of two, whose devices make calls by a way that is made up.
struct DeviceRank : Parts {
  DeviceRank() : Parts(0, {3, 5}, 950, with_way(DeviceWay::automatic), on_one_gpu()) {
    under_way.in_streams().take_way(way);
    REQUIRE(device_programs.find_way());
  }
  Result<OnDevice> program_for_sum_of(std::size_t count) {
    std::vector<float> values(count);
    return device_programs.program_for(under_way.in_streams().submitting(), sum_of(values));
  }

  const std::shared_ptr<MadeUpWay> way = std::make_shared<MadeUpWay>();
};

}  // namespace

TEST_CASE("device programs: a rank takes its own GPU at start, and says why it cannot",
          "[comm][unit]") {
  const std::uint64_t job = 1, child = 940;
  CHECK(Parts(0, {0}, job).device_programs.find_device());
  CHECK(Parts(0, {0}, child, with_way(DeviceWay::automatic)).device_programs.find_device());
  Parts rank(0, {0}, job, with_way(DeviceWay::automatic));
  const auto found = rank.device_programs.find_device();
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == ErrorKind::unsupported);
  CHECK_THAT(found.error().message, Contains("DeviceOptions::ordinal is 1000: "));
}

TEST_CASE("device programs: a rank without a GPU looks for no way", "[comm][unit]") {
  Parts rank(0, {3, 5}, 941, {}, on_one_gpu());
  REQUIRE(rank.device_programs.find_way());
  CHECK(rank.device_programs.pick().why.empty());
  CHECK_FALSE(rank.device_programs.has_way());
}

TEST_CASE("device programs: where another rank lacks a GPU, the host makes all calls",
          "[comm][unit]") {
  Parts rank(0, {3, 5}, 942, with_way(DeviceWay::automatic));
  REQUIRE(rank.device_programs.find_way());
  CHECK(rank.device_programs.pick().way == DeviceWay::host);
  CHECK_THAT(rank.device_programs.pick().why, Contains("without a GPU"));
  CHECK_FALSE(rank.device_programs.has_way());
}

TEST_CASE("device programs: a rank that cannot join its team has no communicator", "[comm][unit]") {
  Parts rank(0, {3, 5}, 943, with_way(DeviceWay::team), on_one_gpu());
  const auto found = rank.device_programs.find_way();
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == ErrorKind::unsupported);
  CHECK(rank.record.history().calls() == 0);
}

TEST_CASE("device programs: if a rank cannot make stream steps, all go by the host", "[comm]") {
  std::vector<std::unique_ptr<Parts>> ranks;
  for (Rank rank = 0; rank < 2; rank++)
    ranks.push_back(std::make_unique<Parts>(rank, std::vector<std::uint32_t>{3, 5}, 944,
                                            with_way(DeviceWay::steps), on_one_gpu()));
  const auto errors = run_threads(2, [&](int rank) {
    value_or_throw(ranks[static_cast<std::size_t>(rank)]->device_programs.find_way());
  });
  CHECK(errors == std::vector<std::string>(2));
  for (const auto& rank : ranks) {
    CHECK(rank->device_programs.pick().way == DeviceWay::host);
    CHECK_THAT(rank->device_programs.pick().why, Contains("rank 0: "));
    CHECK_FALSE(rank->device_programs.has_way());
    // Both have made the same calls: the next ones are compared by their numbers.
    CHECK(rank->record.history().calls() == 2);
    CHECK_FALSE(rank->broken());
  }
}

TEST_CASE("device programs: in a broken communicator no way is looked for any more",
          "[comm][unit]") {
  Parts rank(0, {3, 5}, 945, with_way(DeviceWay::steps), on_one_gpu());
  rank.failures.hear({ErrorKind::peer_lost, "rank 5 fell silent", 5});
  REQUIRE(rank.device_programs.find_way());
  CHECK(rank.device_programs.pick().way == DeviceWay::host);
  CHECK_THAT(rank.device_programs.pick().why, Contains("rank 5 fell silent"));
}

TEST_CASE("device programs: calls with one signature share a program, which is kept",
          "[comm][unit]") {
  DeviceRank rank;
  CHECK(rank.device_programs.has_way());
  CHECK(rank.device_programs.pick().way == DeviceWay::team);
  const auto first = rank.program_for_sum_of(8);
  const auto again = rank.program_for_sum_of(8);
  const auto other = rank.program_for_sum_of(9);
  REQUIRE((first && again && other));
  REQUIRE(first->program);
  CHECK(first->program == again->program);
  CHECK(first->program != other->program);
  REQUIRE(rank.way->asked.size() == 2);
  CHECK(first->algorithm == rank.way->asked[0].algorithm);
}

TEST_CASE("device programs: one that does not fit is made smaller, and at last by the host",
          "[comm][unit]") {
  DeviceRank rank;
  const auto limits = device_limits(DeviceWay::team);
  const std::size_t refusals = GENERATE(0U, 1U, 3U, 100U);
  rank.way->on_load = [&]() -> Status {
    if (rank.way->asked.size() > refusals) return {};
    return fail(ErrorKind::unsupported, "too large");
  };
  const auto found = rank.program_for_sum_of(1 << 20);
  REQUIRE(found);
  CHECK((found->program != nullptr) == (refusals < limits.size()));
  const auto attempts = std::min(refusals + 1, limits.size());
  REQUIRE(rank.way->asked.size() == attempts);
  for (std::size_t i = 0; i < attempts; i++) {
    CHECK(rank.way->asked[i].slice_elems * sizeof(float) <= limits[i].slice_bytes);
    CHECK(rank.way->asked[i].lanes <= limits[i].lanes);
  }
  // That is known from then on.
  REQUIRE(rank.program_for_sum_of(1 << 20));
  CHECK(rank.way->asked.size() == attempts);
  CHECK_FALSE(rank.broken());
}

TEST_CASE("device programs: a rank that lacks memory for one breaks the communicator, once",
          "[comm][unit]") {
  DeviceRank rank;
  rank.way->on_load = [] { return fail(ErrorKind::exhausted, "no room"); };
  const auto found = rank.program_for_sum_of(8);
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == ErrorKind::exhausted);
  CHECK(found.error().culprit == 3U);
  REQUIRE(rank.broken());
  CHECK_THAT(rank.broken()->message, Contains("no room"));
  CHECK_FALSE(rank.program_for_sum_of(8));
  REQUIRE(rank.control->floods.size() == 1);
  CHECK(rank.control->floods[0].failure.culprit == 3U);
}

TEST_CASE("device programs: a call that is wrong harms nothing else", "[comm][unit]") {
  DeviceRank rank;
  rank.way->on_load = [] { return fail(ErrorKind::invalid_argument, "wrong"); };
  const auto found = rank.program_for_sum_of(8);
  REQUIRE_FALSE(found);
  CHECK(found.error().message == "wrong");
  CHECK_FALSE(rank.broken());
  CHECK(rank.control->floods.empty());
  rank.way->on_load = [] { return Status(); };
  const auto again = rank.program_for_sum_of(8);
  REQUIRE(again);
  CHECK(again->program);
}

TEST_CASE("device programs: beyond 1,024 programs the host makes what is new", "[comm][unit]") {
  DeviceRank rank;
  for (std::size_t count = 1; count <= 1024; count++)
    if (!rank.program_for_sum_of(count).value().program) FAIL(count);
  CHECK_FALSE(rank.program_for_sum_of(1025).value().program);
  CHECK(rank.program_for_sum_of(7).value().program);
  CHECK(rank.way->asked.size() == 1024);
}

}  // namespace ccoll::test
