// SPDX-License-Identifier: Apache-2.0
// Progress without a communicator.
#include <catch2/catch.hpp>

#include "comm/parts.hpp"

namespace ccoll::test {

TEST_CASE("progress: a pointer to another part expires with the communicator", "[comm][unit]") {
  std::weak_ptr<const Self> kept;
  {
    const Parts rank(0, {3, 5}, 990);
    kept = rank.progress.weak(rank.self);
    CHECK(kept.lock().get() == &rank.self);
    // By its owner, each pointer belongs to the same communicator.
    CHECK_FALSE(kept.owner_before(rank.progress.weak()));
    CHECK_FALSE(rank.progress.weak().owner_before(kept));
  }
  CHECK(kept.expired());
}

TEST_CASE("progress: a limit of a wait goes by the communicator's clock", "[comm][unit]") {
  struct LateRank : Parts {
    using Parts::Parts;
    Clock::time_point supervise(Owned /*owned*/, Clock::time_point now) override {
      return now + std::chrono::milliseconds(1);
    }
    void slept(Owned /*owned*/, std::vector<Rank> /*awaited*/,
               Clock::duration /*time*/) noexcept override {
      pass(std::chrono::milliseconds(100));
      if (now_shown() - begun > std::chrono::minutes(1)) recv->end();
    }

    const Clock::time_point begun = now_shown();
    std::shared_ptr<MessageOperation> recv;
  };
  LateRank rank(0, {3, 5}, 992);
  rank.recv = rank.begin_recv(1);
  Work work(std::make_shared<Work::State>(Work::State{rank.progress.weak(), {rank.recv}}));
  CHECK_THROWS_AS(work.wait(std::chrono::seconds(1)), Error);
  CHECK(now_shown() - rank.begun == std::chrono::seconds(1));
  CHECK_FALSE(rank.recv->done);
}

TEST_CASE("progress: before the communicator has begun there is no such pointer", "[comm][unit]") {
  Parts rank(0, {3, 5}, 991);
  const Progress not_begun(rank, Waiter::make().value(), &now_shown);
  CHECK(not_begun.weak(rank.self).expired());
}

}  // namespace ccoll::test
