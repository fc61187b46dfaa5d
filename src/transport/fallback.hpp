// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Serves the pairs of ranks that turn out to be unable to use a transport.

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "system/locks.hpp"
#include "system/log.hpp"
#include "transport/transport.hpp"

namespace ccoll {

/// One per rank; thread-safe. A pair that has fallen back once always does.
class Fallback {
 public:
  Fallback(std::uint32_t rank, std::shared_ptr<Transport> transport)
      : rank_(rank), transport_(std::move(transport)) {}

  /// Null where no other transport may be used.
  Transport* transport() const { return transport_.get(); }

  /// The first transport does not work with rank `to`.
  void settle(std::uint32_t to, const std::string& why) { pairs_.lock()->try_emplace(to, why); }
  bool serves(std::uint32_t to) { return pairs_.lock()->contains(to); }
  /// The fallback works: warns once for each pair. It does not warn earlier, because a rank that
  /// leaves refuses too.
  void works(std::uint32_t to) {
    const auto pairs = pairs_.lock();
    const auto found = pairs->find(to);
    if (found == pairs->end() || found->second.empty()) return;
    log().warn("rank {}: {}; another transport is used", rank_, std::exchange(found->second, {}));
  }
  /// link.has_room(), for a fallback `link` to rank `to`; `has_worked`: works() has been called.
  bool has_room(SendLink& link, std::uint32_t to, bool& has_worked) {
    if (!has_worked && link.connected()) {
      has_worked = true;
      works(to);
    }
    return link.has_room();
  }

 private:
  const std::uint32_t rank_;
  const std::shared_ptr<Transport> transport_;
  Guarded<std::map<std::uint32_t, std::string>> pairs_;  ///< the reason, until it is logged
};

}  // namespace ccoll
