// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Start-up by an opaque id, as in NCCL: one rank, or a process that is none, makes the id, the
/// user hands its bytes round by any means, and all ranks begin with it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "ccoll/tls.hpp"
#include "ccoll/version.hpp"

namespace ccoll {

/// Plain bytes: copy, send or print them as you like, but only to those who are to take part,
/// because they contain a secret. Only ccoll reads them: they are the address of a store that the
/// maker's process serves, and the token of its connections.
struct CCOLL_API UniqueId {
  std::array<std::uint8_t, 128> bytes{};

  /// A new id. This process serves its store from then on, in a thread of its own, for as long as
  /// it runs; all its ids share that. The store listens at the interface that `interface` names (by
  /// prefix; "=eth0" exactly, "^docker" not), by default CCOLL_SOCKET_IFNAME. If neither is set, it
  /// listens at loopback, and only this host can take part. `tls` is the store's;
  /// CommunicatorOptions::tls must have the same mode. Local; from any thread. Throws
  /// Error{invalid_argument} if no interface fits.
  static UniqueId create(const std::string& interface = {}, const TlsOptions& tls = {});

  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};
static_assert(std::is_trivially_copyable_v<UniqueId> && sizeof(UniqueId) == 128);

}  // namespace ccoll
