// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A rank's remarks under CCOLL_LOG=info: once who and where it is and how it reaches the others,
/// and for each new kind of call the chosen algorithm and why.

#include <span>
#include <string>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "core/signature.hpp"
#include "net/peer_address.hpp"

namespace ccoll {

/// Facts about a rank that has met the others.
struct Introduction {
  std::uint32_t rank = 0;
  std::span<const PeerAddress> table;
  std::string host;
  std::string interface;  ///< with the listener's address: "eth0"; or empty
  std::string why_there;  ///< "the route to 10.0.0.1:29500"
  std::vector<std::string_view> transports;  ///< by rank
  bool transport_forced = false;
};

/// Returns at most two lines, of bounded length however many ranks there are.
std::vector<std::string> introduction(const Introduction& facts);

/// "all_reduce of 256 float32, sum: ring with 2 lanes: …".
std::string choice_text(const Signature& signature, const Chosen& chosen);

/// Logs choice_text: as `info` at rank 0, because all ranks choose alike. Elsewhere, and once a
/// process has told so many that nobody reads on, as `debug`.
void log_choice(std::uint32_t rank, const Signature& signature, const Chosen& chosen);

}  // namespace ccoll
