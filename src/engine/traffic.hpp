// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The traffic between this rank and the others.

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "schedule/problem.hpp"

namespace ccoll {

/// Bytes count payload, without what links add.
struct Traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t retries = 0;  ///< from LinkReport

  Traffic& operator+=(const Traffic& other) {
    messages_sent += other.messages_sent;
    bytes_sent += other.bytes_sent;
    messages_received += other.messages_received;
    bytes_received += other.bytes_received;
    retries += other.retries;
    return *this;
  }
};

/// Key: the rank at the other end, and the transport by the link's own name; empty if a link does
/// not know it.
using TrafficTable = std::map<std::pair<Rank, std::string_view>, Traffic>;

}  // namespace ccoll
