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
    // Whoever compares owners finds the same communicator behind all parts.
    CHECK_FALSE(kept.owner_before(rank.progress.weak()));
    CHECK_FALSE(rank.progress.weak().owner_before(kept));
  }
  CHECK(kept.expired());
}

TEST_CASE("progress: before the communicator has begun there is no such pointer", "[comm][unit]") {
  Parts rank(0, {3, 5}, 991);
  const Progress not_begun(rank, Waiter::make().value());
  CHECK(not_begun.weak(rank.self).expired());
}

}  // namespace ccoll::test
