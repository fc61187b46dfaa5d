// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CCOLL_PORT_RANGE: the ports for listening sockets whose address names no port.

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/result.hpp"

namespace ccoll::net {

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;  ///< not less than `first`
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

/// Parses "20000-20100", or one port.
Result<PortRange> parse_port_range(std::string_view text);

/// The variable's range; none if it is not set.
Result<std::optional<PortRange>> port_range();

}  // namespace ccoll::net
