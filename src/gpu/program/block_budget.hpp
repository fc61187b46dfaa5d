// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Counts the blocks that a GPU has room for, over all communicators of the process: blocks of
/// teams of several GPUs, and of groups by kernels (kernel_calls.cpp). Knows no CUDA.
///
/// Such a team's call is a kernel on each of its GPUs, and these kernels wait for one another. Two
/// calls that share GPUs could each hold one GPU, wait for room on the other, and deadlock. No
/// order of launches can prevent that, because graphs run without asking us. So a program is loaded
/// only if there is room for it beside all that other teams have loaded.
///
/// Why that is enough: a GPU has P multiprocessors, each of which runs at least k blocks at once of
/// any counted program. So such a block takes at most a k-th of a multiprocessor, and one that runs
/// fewer than k counted blocks has room for another. As long as a GPU has fewer than P × k of them,
/// such a multiprocessor exists; the budget ensures that. So a counted kernel waits only for
/// kernels that wait for nobody, never for another counted one to end. All parts of a call start,
/// and then wait only for each other.
///
/// Each team counts its program with the most blocks, twice. Its calls follow one another, except
/// that a graph may run beside another call. Each GPU then has room for both calls, which find each
/// other there and end all (TeamClaim). A team gets at most half of what others have left, so that
/// there is room for the next.
///
/// The ranks of a group are several processes. Each knows only the room on its own GPU, and all
/// have to refuse the same programs. So each rank reserves blocks once, when its group is made: no
/// more than a team could have then, nor than its options allow. No program of the group has more
/// blocks than the smallest reservation, which counts for the group, twice, too.
///
/// A message's step (CopySteps) is a kernel that waits for nobody, but a team may wait for it. Its
/// blocks have one warp, no larger than any counted block, and room for one of them is left.
///
/// Other processes' blocks on a GPU are not counted. Without MPS, processes take turns, and the
/// GPUs that we have kernels for preempt what runs when a turn ends. In its turn a process has all
/// multiprocessors for the blocks counted here. So its calls take longer while others take turns,
/// but none waits for ever. With MPS, kernels of several processes run at once and may wait for
/// each other's room, which no process knows.

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "system/locks.hpp"

namespace ccoll::device {

/// Any thread may call.
class BlockBudget {
 public:
  /// A program's blocks on one GPU.
  struct Need {
    int device = 0;
    std::uint32_t blocks = 0;
    std::uint32_t at_once = 0;  ///< how many of them the GPU runs if it runs nothing else
  };

  static BlockBudget& of_process();

  /// How many blocks a program of `team` may have on the GPU, which runs `at_once` of them.
  std::uint32_t room(const void* team, int device, std::uint32_t at_once) const;
  /// Counts a program of the team on all GPUs. If one of them has no room: on none, and false.
  bool take(const void* team, std::span<const Need> needs);
  /// Counts as many blocks as there is room for, at most those of `most`, whichever programs they
  /// belong to; returns how many.
  std::uint32_t reserve(const void* team, const Need& most);
  /// Lowers the team's count to at most `blocks` on every GPU.
  void limit(const void* team, std::uint32_t blocks);
  /// Counts the team's blocks no more: none of its kernels runs or will run.
  void give_back(const void* team);

 private:
  struct Taken {
    std::uint32_t blocks = 0;            ///< the most of any program
    std::uint32_t at_once = UINT32_MAX;  ///< the least of any program
  };
  using ByTeam = std::map<std::pair<int, const void*>, Taken>;  // and by device
  static std::uint32_t room(const ByTeam& all, const void* team, int device, std::uint32_t at_once);

  Guarded<ByTeam, ProcessMutex> taken_;
};

}  // namespace ccoll::device
