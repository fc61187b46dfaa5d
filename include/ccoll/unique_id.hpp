// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Start-up by an opaque id, as NCCL has it: one rank, or a process that is none, makes the id, the
/// user hands its bytes round by whatever means there are, and all ranks begin with it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "ccoll/tls.hpp"
#include "ccoll/version.hpp"

namespace ccoll {

/// Plain bytes: copy, send or print them as you like, but to those only who are to take part, for a
/// secret is among them. What they say is ccoll's business: the address of a store that the maker's
/// process serves, and the token of its connections.
struct CCOLL_API UniqueId {
  std::array<std::uint8_t, 128> bytes{};

  /// A new id. This process serves its store from now on, in a thread of its own, for as long as it
  /// runs; all its ids share that. The store listens at the interface that `interface` names (by
  /// prefix; "=eth0" exactly, "^docker" not), by default CCOLL_SOCKET_IFNAME; where neither is set
  /// at loopback, and only this host can take part. `tls` is the store's, and
  /// CommunicatorOptions::tls is to have the same mode. Local; from any thread. Throws
  /// Error{invalid_argument} where no interface fits.
  static UniqueId create(const std::string& interface = {}, const TlsOptions& tls = {});

  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};
static_assert(std::is_trivially_copyable_v<UniqueId> && sizeof(UniqueId) == 128);

}  // namespace ccoll
