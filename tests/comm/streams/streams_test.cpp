// SPDX-License-Identifier: Apache-2.0
// Calls for streams where there is no GPU, or one that is made up.
#include "comm/streams/streams.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "comm/streamed_rank.hpp"

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;

CommunicatorOptions with_gpu() {
  CommunicatorOptions options;
  options.device.ordinal = kNoSuchGpu;
  return options;
}

/// A rank whose sleeps are short, while a long time passes.
struct PatientRank : StreamedRank {
  Clock::time_point supervise(Owned /*owned*/, Clock::time_point now) override {
    return now + std::chrono::milliseconds(1);
  }
  void slept(Owned /*owned*/, std::vector<Rank> /*awaited*/,
             Clock::duration /*time*/) noexcept override {
    pass(std::chrono::milliseconds(100));
  }
};

/// Its operation ends in the third round.
struct SlowRank : StreamedRank {
  bool advance(Owned owned, Attention attention) override {
    const bool moved = StreamedRank::advance(owned, attention);
    if (begun == 0 || operation->done) return moved;
    if (++rounds == 3) operation->end();
    return true;
  }

  int rounds = 0;
};

}  // namespace

TEST_CASE("streams: without a GPU no call belongs there", "[comm][unit]") {
  Parts rank(0, {3, 5}, 960);
  std::vector<float> values(8);
  const std::array requests{MessageRequest::send(values, 1, 7)};
  // A message that waits for its stream would keep others behind it.
  const auto earlier = rank.under_way.in_streams().messages_to_post();
  CHECK_FALSE(rank.streams.are_for(Parts::sum_of(values)));
  CHECK_FALSE(rank.streams.are_for(values.data(), values.data()));
  CHECK_FALSE(rank.streams.are_for(requests));
}

TEST_CASE("streams: messages of the host stand behind those that wait for a stream",
          "[comm][unit]") {
  Parts rank(0, {3, 5}, 961, with_gpu());
  std::vector<float> values(8);
  const std::array requests{MessageRequest::send(values, 1, 7)};
  CHECK_FALSE(rank.streams.are_for(requests));
  const auto earlier = rank.under_way.in_streams().messages_to_post();
  CHECK(rank.streams.are_for(requests));
  CHECK_FALSE(rank.streams.are_for(values.data(), values.data()));
  // The streams are the parent's.
  rank.progress.forked();
  CHECK_FALSE(rank.streams.are_for(requests));
}

TEST_CASE("streams: a stream without memory of a GPU is refused, which harms nothing else",
          "[comm][unit]") {
  Parts rank(0, {3, 5}, 962);
  std::vector<float> values(8);
  int no_stream = 0;
  const auto begun =
      rank.streams.begin(Parts::sum_of(values), reinterpret_cast<cudaStream_t>(&no_stream));
  REQUIRE_FALSE(begun);
  CHECK(begun.error().kind == ErrorKind::invalid_argument);
  CHECK_THAT(begun.error().message, Contains("this rank's data are on the host"));
  CHECK_FALSE(rank.broken());
  CHECK(rank.control->floods.empty());
  CHECK(rank.record.history().calls() == 0);
  const Owner owned(rank.progress);
  CHECK(rank.under_way.is_idle(owned));
}

TEST_CASE("streams: a rank that lacks what a call needs ends all calls, and names itself, once",
          "[comm][unit]") {
  Parts rank(0, {3, 5}, 963, with_gpu());
  std::vector<float> values(8);
  const auto recv = rank.begin_recv(1);
  const auto begun = rank.streams.begin(Parts::sum_of(values), std::nullopt);
  REQUIRE_FALSE(begun);
  CHECK(begun.error().kind == ErrorKind::unsupported);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->message == begun.error().message);
  CHECK(recv->done);
  REQUIRE(rank.control->floods.size() == 1);
  CHECK(rank.control->floods[0].communicator == rank.self.id());
  const auto again = rank.streams.begin(Parts::sum_of(values), std::nullopt);
  REQUIRE_FALSE(again);
  CHECK_THAT(again.error().message, Contains("an earlier failure broke the communicator"));
  CHECK(rank.control->floods.size() == 1);
}

TEST_CASE("streams: a forked child's copy refuses calls and touches nothing", "[comm][unit]") {
  Parts rank(0, {3, 5}, 964, with_gpu());
  rank.progress.forked();
  std::vector<float> values(8);
  const auto call = rank.streams.begin(Parts::sum_of(values), std::nullopt);
  REQUIRE_FALSE(call);
  CHECK_THAT(call.error().message, Contains("forked child"));
  const auto messages = rank.streams.begin(std::vector<std::shared_ptr<MessageOperation>>(),
                                           std::chrono::milliseconds(0), std::nullopt);
  REQUIRE_FALSE(messages);
  CHECK_THAT(messages.error().message, Contains("forked child"));
  CHECK(rank.control->floods.empty());
}

TEST_CASE("streams: a blocking call that fails blocks no later one", "[comm][unit]") {
  Parts rank(0, {3, 5}, 965);
  std::vector<float> values(8);
  const Collectives::Blocking barrier{{.kind = 3}, std::nullopt};
  {
    const Owner owned(rank.progress);
    rank.under_way.collectives(owned).block(barrier);
    CHECK_FALSE(rank.calls.alone(owned, Parts::sum_of(values)));
  }
  CHECK_FALSE(rank.streams.run(Parts::sum_of(values)));
  {
    const Owner owned(rank.progress);
    CHECK_FALSE(rank.calls.alone(owned, Parts::sum_of(values)));
    rank.under_way.collectives(owned).unblock();
  }
  // Without a GPU the call itself is refused.
  CHECK_FALSE(rank.streams.run(Parts::sum_of(values)));
  const Owner owned(rank.progress);
  CHECK_FALSE(rank.under_way.collectives(owned).is_blocking());
}

TEST_CASE("streams: an incomplete result of a device breaks the communicator on all ranks",
          "[comm][unit]") {
  StreamedRank rank;
  rank.stream->by_device = true;
  rank.stream->result = fail(ErrorKind::internal, "half of it");
  const bool was_broken = GENERATE(false, true);
  if (was_broken) {
    const Owner owned(rank.progress);
    rank.failures.break_with(owned, {ErrorKind::aborted, "enough", 1}, false);
  }
  rank.stream->is_passed = true;
  rank.round();
  REQUIRE(rank.broken());
  CHECK(rank.broken()->message == (was_broken ? "enough" : "half of it"));
  CHECK(rank.control->floods.size() == (was_broken ? 0 : 1));
}

TEST_CASE("streams: at the end, hosts make their parts of what the device has made",
          "[comm][unit]") {
  SlowRank rank;
  rank.stream->by_device = true;
  rank.stream->is_reached = rank.stream->is_passed = true;
  rank.call->reached();
  {
    const Owner owned(rank.progress);
    rank.streams.end_what_devices_made(owned);
  }
  CHECK(rank.begun == 1);
  CHECK(rank.operation->done);
}

TEST_CASE("streams: at the end, hosts that other ranks keep waiting are awaited for a second",
          "[comm][unit]") {
  PatientRank rank;
  rank.stream->by_device = true;
  rank.stream->is_reached = rank.stream->is_passed = true;
  rank.call->reached();
  const auto begin = now_shown();
  {
    const Owner owned(rank.progress);
    rank.streams.end_what_devices_made(owned);
  }
  CHECK(rank.begun == 1);
  CHECK_FALSE(rank.operation->done);
  CHECK(now_shown() - begin == std::chrono::seconds(1));
}

}  // namespace ccoll::test
