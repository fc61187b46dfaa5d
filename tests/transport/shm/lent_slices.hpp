// SPDX-License-Identifier: Apache-2.0
#pragma once

// Helpers for tests of links that lend.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>

#include "transport/pair.hpp"

namespace ccoll::testing {

inline void lend(Pair& pair, std::uint64_t sequence, const std::byte* data, std::size_t bytes) {
  REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
  pair.sender->lend(header(sequence, bytes), data);
}

inline const ReceiveLink::View* await_front(Pair& pair) {
  const ReceiveLink::View* view = nullptr;
  REQUIRE(eventually(pair, [&] { return (view = pair.receiver->front()) != nullptr; }));
  return view;
}

}  // namespace ccoll::testing
