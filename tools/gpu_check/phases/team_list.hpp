// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls of a team, each in one of the ways in which ranks make them.

#include <random>
#include <vector>

#include "gpu/team/team_case.hpp"
#include "gpu_check/phases.hpp"

namespace ccoll::gpu_check {

/// Bit by bit what the host's interpreter does, and with exact sums what the operation says, with
/// up to `threads` in a block, each rank on its GPU, or all on the first. False when the team can
/// run no more.
bool try_team(Rank ranks, std::uint32_t threads, const std::vector<test::TeamCase>& cases,
              Findings& findings, std::mt19937_64& random,
              device::CopyUse copies = device::CopyUse::by_size,
              const std::vector<int>& devices = {});

/// Never ends by itself, because a block does nothing that others wait for.
struct EndlessCall {
  test::TeamCase made;
  device::LoweredTeam lowered;
};
EndlessCall endless_call();

}  // namespace ccoll::gpu_check
