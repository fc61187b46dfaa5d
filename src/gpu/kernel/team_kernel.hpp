// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where the host that launches the team kernels finds them, by family. No CUDA header is used:
/// both compilers read this.

#include <cstdint>

namespace ccoll::device {

/// The most threads of a team's block, among which registers are shared out.
inline constexpr std::uint32_t kMostTeamThreads = 512;

/// Each is `void(const TeamLaunch)`, as cudaLaunchCooperativeKernel takes it: for programs by words
/// or for others, which need other registers. Each family has a file: they compile side by side.
const void* team_kernel_of_bits(bool by_words);
const void* team_kernel_of_floats(bool by_words);
const void* team_kernel_of_integers(bool by_words);
const void* team_kernel_of_small_floats(bool by_words);

}  // namespace ccoll::device
