// SPDX-License-Identifier: Apache-2.0
// Network descriptions for the simulator.
#include "sim/network.hpp"
#include "fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ccoll;
  fuzz::require_round_trip(fuzz::text_of(data, size), sim::parse_network, sim::to_text);
  return 0;
}
