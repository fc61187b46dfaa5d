// SPDX-License-Identifier: Apache-2.0
// Connections that end while a link is being made over them.
#include <catch2/catch.hpp>

#include "faults/faults.hpp"
#include "transport/pair.hpp"

using namespace ccoll;
using namespace ccoll::testing;

namespace {

enum class End { carried, failed, hangs };

/// Sends some slices over a link that is only made then.
End end_of(Pair& pair, std::uint64_t slices) {
  std::uint64_t pushed = 0, popped = 0;
  bool has_failed = false;
  const bool in_time = eventually(pair, [&] {
    if (pushed < slices && pair.sender->has_room()) {
      push(*pair.sender, pushed, pattern(pushed, 100));
      pushed++;
    }
    if (const auto* view = pair.receiver->front()) {
      CHECK(view->header.sequence == popped);
      CHECK(equals(*view, pattern(popped, 100)));
      CHECK(pair.receiver->begin_read());
      CHECK(pair.receiver->pop());
      popped++;
    }
    has_failed = pair.sender->failure() != nullptr || pair.receiver->failure() != nullptr;
    return popped == slices || has_failed;
  });
  if (!in_time) return End::hangs;
  return has_failed ? End::failed : End::carried;
}

std::uint64_t cuts_so_far() {
  return faults::counts()[static_cast<std::size_t>(faults::Kind::cut)];
}

}  // namespace

TEST_CASE("link: wherever a connection is cut while it is made, it carries all or fails",
          "[transport]") {
  for (const char* const name : {"shm", "tcp"}) {
    for (const bool has_next : {false, true}) {
      const auto& kind = *find_transport(name);
      const auto* const next = has_next && kind.name != "tcp" ? find_transport("tcp") : nullptr;
      int cuts = 0;
      for (bool was_cut = true; was_cut; cuts += was_cut) {
        CAPTURE(name, has_next, cuts);
        const auto before = cuts_so_far();
        Pair pair(kind, {.next = next});
        faults::arm(faults::parse("cut@" + std::to_string(cuts + 1)), -1);
        pair.open();
        const auto end = end_of(pair, 20);
        was_cut = cuts_so_far() > before;
        faults::disarm();
        CHECK(end != End::hangs);
        if (!was_cut) CHECK(end == End::carried);
        // Another transport is used until the link exists; only the receiver's doorbell is missing.
        if (next != nullptr && end == End::failed)
          CHECK(pair.sender->failure()->message == "rank 1 has left");
      }
      CHECK(cuts > 5);
    }
  }
}
