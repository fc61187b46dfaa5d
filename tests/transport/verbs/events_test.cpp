// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/events.hpp"

#include <catch2/catch.hpp>
#include <set>

using namespace ccoll;
using namespace ccoll::verbs;

namespace {

const Path kPath{3, "10.0.0.7", "mlx5_0 port 1"};
constexpr int kLast = IBV_EVENT_WQ_FATAL;

}  // namespace

TEST_CASE("verbs: every event of a device is an error, a remark or of no concern",
          "[transport][verbs]") {
  const std::set<int> ends = {IBV_EVENT_CQ_ERR,       IBV_EVENT_QP_FATAL,
                              IBV_EVENT_QP_REQ_ERR,   IBV_EVENT_QP_ACCESS_ERR,
                              IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_DEVICE_FATAL};
  const std::set<int> quiet = {IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED,
                               IBV_EVENT_QP_LAST_WQE_REACHED};
  std::set<std::string> texts;
  for (int number = 0; number <= kLast + 1; number++) {
    const auto event = static_cast<ibv_event_type>(number);
    CAPTURE(number);
    const auto failure = failure_of(event, kPath);
    const auto remark = remark_of(event, "mlx5_0");
    CHECK(failure.has_value() == ends.contains(number));
    // A fatal device error concerns no single link.
    const bool tells =
        !quiet.contains(number) && (!failure.has_value() || event == IBV_EVENT_DEVICE_FATAL);
    CHECK(remark.has_value() == tells);
    if (remark) CHECK_THAT(remark->text, Catch::Contains("mlx5_0"));
    if (!failure) continue;
    for (const char* part : {"mlx5_0 port 1", "rank 3", "10.0.0.7"})
      CHECK_THAT(failure->message, Catch::Contains(part));
    CHECK_THAT(failure->message, Catch::Contains(fmt::format("event {})", number)));
    CHECK(failure->culprit.has_value() == (failure->kind != ErrorKind::internal));
    texts.insert(failure->message);
    // Some link or port must hear of it.
    CHECK(concern_of(event) != Concern::none);
    CHECK(concern_of(event) != Concern::port);
  }
  CHECK(texts.size() == ends.size());
}

TEST_CASE(
    "verbs: a port that goes down is a warning that says what to look at, and so is its return",
    "[transport][verbs]") {
  CHECK(remark_of(IBV_EVENT_PORT_ERR, "a port 1")->level == LogLevel::warn);
  CHECK_THAT(remark_of(IBV_EVENT_PORT_ERR, "a port 1")->text, Catch::Contains("cable"));
  CHECK(remark_of(IBV_EVENT_PORT_ACTIVE, "a port 1")->level == LogLevel::warn);
  CHECK(remark_of(IBV_EVENT_DEVICE_FATAL, "a")->level == LogLevel::error);
}
