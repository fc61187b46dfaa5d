// SPDX-License-Identifier: Apache-2.0
// Calls in streams whose streams are made up here: no GPU, and no CUDA.
#include "comm/streams/stream_calls.hpp"

#include <catch2/catch.hpp>

#include "comm/streamed_rank.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("stream calls: begin when the stream has reached them, end when it has passed them",
          "[comm][unit]") {
  StreamedRank rank;
  rank.look();
  CHECK(rank.begun == 0);
  const auto rings = rank.rings();
  rank.call->reached();
  CHECK(rank.rings() == rings + 1);
  CHECK(rank.under_way.in_streams().has_reached());
  rank.look();
  CHECK(rank.begun == 1);
  CHECK(rank.stream->releases == 0);
  rank.operation->end();
  rank.look();
  CHECK(rank.stream->releases == 1);
  CHECK_FALSE(rank.shown->done);
  rank.call->passed();
  CHECK(rank.shown->done);
  CHECK_FALSE(rank.shown->failure);
  rank.look();
  CHECK_FALSE(rank.are_under_way());
}

TEST_CASE("stream calls: the failure of the operation is the Work's, and the stream goes on",
          "[comm][unit]") {
  StreamedRank rank;
  rank.call->reached();
  rank.look();
  rank.operation->failure = Failure{ErrorKind::aborted, "enough", 1};
  rank.operation->end();
  rank.look();
  CHECK(rank.stream->releases == 1);
  rank.call->passed();
  REQUIRE(rank.shown->failure);
  CHECK(rank.shown->failure->message == "enough");
}

TEST_CASE("stream calls: a failure of the communicator ends one that its stream has not reached",
          "[comm][unit]") {
  StreamedRank rank;
  {
    const Owner owned(rank.progress);
    rank.failures.break_with(owned, {ErrorKind::aborted, "enough", 1}, false);
  }
  CHECK(rank.stream->releases == 1);
  rank.call->reached();
  rank.look();
  CHECK(rank.begun == 0);
  rank.call->passed();
  REQUIRE(rank.shown->failure);
  CHECK_THAT(rank.shown->failure->message, Contains("enough"));
}

TEST_CASE("stream calls: a device's incomplete result is its Work's and is told", "[comm][unit]") {
  StreamedRank rank;
  rank.stream->by_device = true;
  rank.call->reached();
  rank.look();
  rank.operation->end();
  CHECK_FALSE(rank.look());
  rank.stream->is_passed = true;
  rank.stream->result = fail(ErrorKind::internal, "half of it");
  const auto trouble = rank.look();
  REQUIRE(trouble);
  CHECK(trouble->message == "half of it");
  CHECK(rank.shown->done);
  CHECK(rank.shown->failure);
}

TEST_CASE("stream calls: abandoned ones end at once, and say that buffers may still be in use",
          "[comm][unit]") {
  StreamedRank rank;
  {
    const Owner owned(rank.progress);
    rank.under_way.in_streams().abandon(owned, {ErrorKind::aborted, "destroyed", std::nullopt});
  }
  REQUIRE(rank.shown->done);
  CHECK_THAT(rank.shown->failure->message,
             Contains("destroyed") && Contains("has not passed the call"));
  CHECK_FALSE(rank.are_under_way());
  // A stream that reaches it later goes on.
  rank.call->reached();
  CHECK(rank.stream->forsaken == 1);
}

TEST_CASE("stream calls: a stream that reaches a call of an ended communicator goes on",
          "[comm][unit]") {
  StreamedRank rank;
  rank.all.reset();
  rank.call->reached();
  rank.call->passed();
  CHECK(rank.stream->forsaken == 1);
  CHECK(rank.begun == 0);
}

}  // namespace ccoll::test
