// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What has travelled between this rank and the others.

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "schedule/problem.hpp"

namespace ccoll {

/// Bytes are those of the data, without what links add.
struct Traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t retries = 0;  ///< LinkReport's

  Traffic& operator+=(const Traffic& other) {
    messages_sent += other.messages_sent;
    bytes_sent += other.bytes_sent;
    messages_received += other.messages_received;
    bytes_received += other.bytes_received;
    retries += other.retries;
    return *this;
  }
};

/// By the rank at the other end and the transport: the link's own name of it, which is empty where
/// a link does not know.
using TrafficTable = std::map<std::pair<Rank, std::string_view>, Traffic>;

}  // namespace ccoll
