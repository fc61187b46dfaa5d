// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The facts about this machine that are needed for reading a figure.

#include <cstdint>
#include <string>
#include <vector>

namespace ccoll::bench {

struct Machine {
  std::string host;
  std::string processor;
  unsigned cores_online = 0;
  unsigned cores_usable = 0;  ///< by affinity and the control group's quota
  double memory_gib = 0;
  std::uint64_t open_files = 0;  ///< soft limit; the launcher raises it to the hard one
  std::uint64_t open_files_hard = 0;
};

Machine inspect_machine();

/// "eth0 10.0.0.5", one for each address of an interface that is up.
std::vector<std::string> list_addresses();

}  // namespace ccoll::bench
