// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The CCOLL_IB_* variables, which mean what NCCL's of the same names do.

#include <cstdint>
#include <optional>

#include "transport/verbs/device/ports.hpp"

namespace ccoll::verbs {

struct Settings {
  PortFilter ports;
  std::optional<int> gid_index;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  /// A packet is sent again after 4.096 µs times 2 to this power, and so often; the default gives a
  /// broken path up after some 8 s.
  std::uint8_t timeout = 18;
  std::uint8_t retries = 6;

  static Result<Settings> from_environment();
};

}  // namespace ccoll::verbs
