// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls of a team, each in one of the ways that ranks can make them.

#include <random>
#include <vector>

#include "gpu/team/team_case.hpp"
#include "gpu_check/phases.hpp"

namespace ccoll::gpu_check {

/// Checks each case bit by bit against the host's interpreter, and exact sums against the
/// definition. There are up to `threads` per block, and each rank is on its GPU, or all on the
/// first. False if the team can run no more.
bool try_team(Rank ranks, std::uint32_t threads, const std::vector<test::TeamCase>& cases,
              Findings& findings, std::mt19937_64& random,
              device::CopyUse copies = device::CopyUse::by_size,
              const std::vector<int>& devices = {});

/// A call that never ends by itself, because a block lacks a step that others wait for.
struct EndlessCall {
  test::TeamCase made;
  device::LoweredTeam lowered;
};
EndlessCall endless_call();

}  // namespace ccoll::gpu_check
