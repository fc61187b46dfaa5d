// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/errors.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <set>

using namespace ccoll;
using namespace ccoll::verbs;

namespace {

const Path kPath{3, "10.0.0.7", "mlx5_0 port 1"};
constexpr int kLast = IBV_WC_TM_RNDV_INCOMPLETE;

}  // namespace

TEST_CASE("verbs: whatever a completion says becomes an error that names both ends",
          "[transport][verbs]") {
  std::set<std::string> messages;
  for (int status = 1; status <= kLast + 1; status++) {
    const auto failure = failure_of(static_cast<ibv_wc_status>(status), 0x8a, kPath);
    CAPTURE(failure.message);
    for (const char* part : {"mlx5_0 port 1", "rank 3", "10.0.0.7", "0x8a"})
      CHECK_THAT(failure.message, Catch::Contains(part));
    CHECK_THAT(failure.message, Catch::Contains(fmt::format("status {},", status)));
    // Only values beyond the last are unknown.
    CHECK((failure.message.find("unknown") != std::string::npos) == (status > kLast));
    messages.insert(failure.message);
    // The culprit is named if it is not this end.
    CHECK(failure.culprit.has_value() == (failure.kind != ErrorKind::internal));
    if (failure.culprit) CHECK(*failure.culprit == 3);
  }
  CHECK(messages.size() == kLast + 1);
}

TEST_CASE("verbs: a path without an answer has lost the peer, and the message says what to look at",
          "[transport][verbs]") {
  const auto failure = failure_of(IBV_WC_RETRY_EXC_ERR, 0, kPath);
  CHECK(failure.kind == ErrorKind::peer_lost);
  CHECK_THAT(failure.message, Catch::Contains("CCOLL_IB_TIMEOUT"));
}

TEST_CASE("verbs: where this end's port is down, that is the likely cause", "[transport][verbs]") {
  auto path = kPath;
  path.is_down = true;
  for (int status = 1; status <= kLast; status++) {
    const auto failure = failure_of(static_cast<ibv_wc_status>(status), 0, path);
    const bool says = failure.message.find("this end's port is down") != std::string::npos;
    CHECK(says == (failure.kind == ErrorKind::peer_lost));
  }
}

TEST_CASE("verbs: only what was flushed is never the cause", "[transport][verbs]") {
  for (int status = 0; status <= kLast; status++)
    CHECK(is_flush(static_cast<ibv_wc_status>(status)) == (status == IBV_WC_WR_FLUSH_ERR));
}

TEST_CASE("verbs: a device that takes no request says so by its name, and what it lacks",
          "[transport][verbs]") {
  const auto full = failure_to_post("to send", ENOMEM, kPath);
  CHECK(full.kind == ErrorKind::exhausted);
  const auto wrong = failure_to_post("to receive", EINVAL, kPath);
  CHECK(wrong.kind == ErrorKind::internal);
  for (const char* part : {"mlx5_0 port 1", "rank 3", "10.0.0.7"})
    for (const auto& failure : {full, wrong}) CHECK_THAT(failure.message, Catch::Contains(part));
}
