// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The CCOLL_IB_* variables, with the meaning of NCCL's variables of the same names.

#include <cstdint>
#include <optional>

#include "transport/verbs/device/ports.hpp"

namespace ccoll::verbs {

struct Settings {
  PortFilter ports;
  std::optional<int> gid_index;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  /// A packet is resent after 4.096 µs times 2 to this power, `retries` times. The default gives up
  /// a broken path after some 8 s.
  std::uint8_t timeout = 18;
  std::uint8_t retries = 6;

  static Result<Settings> from_environment();
};

}  // namespace ccoll::verbs
