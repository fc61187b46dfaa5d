// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where each family's team kernel is, for the host that launches it. No CUDA header: both
/// compilers read it.

#include <cstdint>

namespace ccoll::device {

/// The most threads a block of a team has, for which registers are shared out.
inline constexpr std::uint32_t kMostTeamThreads = 512;

/// Each `void(const TeamLaunch)`, as cudaLaunchCooperativeKernel takes it: for programs by words or
/// for others, which need other registers. A file for each family: they compile side by side.
const void* team_kernel_of_bits(bool by_words);
const void* team_kernel_of_floats(bool by_words);
const void* team_kernel_of_integers(bool by_words);
const void* team_kernel_of_small_floats(bool by_words);

}  // namespace ccoll::device
