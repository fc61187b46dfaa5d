// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How many blocks of teams of several GPUs, and of groups by kernels (kernel_calls.cpp), a GPU has
/// room for, over all communicators of the process. Knows no CUDA.
///
/// Such a team's call is a kernel on each of its GPUs, all of which wait for one another. Two calls
/// that share GPUs might each have its blocks on one of them, wait for room on the other, and so
/// stand for ever. Graphs run when nobody asks us, so no order of launches can prevent that: a
/// program is loaded only where there is room for it beside all that other teams have loaded.
///
/// Why that is enough. A GPU has P multiprocessors, and of each program that is counted one of them
/// runs at least k blocks at once. So such a block takes at most a k-th of all that a
/// multiprocessor has, and where fewer than k are there is room for another one, whichever they
/// are; and fewer than k are somewhere as long as there are fewer than P × k in all, which is seen
/// to. So a counted kernel never waits for another one to end, only for kernels that wait for
/// nobody: all parts of a call come to run, and then wait for nothing but each other.
///
/// Of each team there counts the program that has most blocks, twice: calls of a team follow one
/// another, but where a graph runs beside another call. Then each GPU has room for two of them,
/// which find each other there and end all (TeamClaim). So that there is some for the next, a team
/// has no more than half of what others have left.
///
/// The ranks of a group are of several processes, each of which knows what there is on its own GPU
/// alone, and all have to refuse the same programs. So each rank reserves some blocks when its
/// group is made, once, no more than a team could have then nor than it is told, and no program of
/// the group has more than the rank that could reserve least. That is what counts of a group,
/// twice, too.
///
/// A message's step (CopySteps) is a kernel that waits for nobody, but that a team may wait for: it
/// has blocks of one warp, no larger than any that is counted, and room for one of them is left.
///
/// What other processes have on a GPU is not counted. Without MPS they take turns there, and GPUs
/// that we have kernels for put aside what is running when its turn is over: in its turn a process
/// has all multiprocessors, with what is counted here and nothing else; so its calls take longer,
/// as long as any takes turns, but none waits for ever. With MPS kernels of several processes are
/// there at once, and may wait for each other's room, of which nobody knows.

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "system/process_mutex.hpp"

namespace ccoll::device {

/// Any thread may call.
class BlockBudget {
 public:
  /// Of a program on one GPU.
  struct Need {
    int device = 0;
    std::uint32_t blocks = 0;
    std::uint32_t at_once = 0;  ///< so many of them the GPU runs, if there is nothing else
  };

  static BlockBudget& of_process();

  /// How many blocks a program of `team` may have there, of which the GPU runs `at_once`.
  std::uint32_t room(const void* team, int device, std::uint32_t at_once) const;
  /// Counts a program of the team, on all GPUs or, where one of them has no room, on none: false.
  bool take(const void* team, std::span<const Need> needs);
  /// Counts as many blocks as there is room for, at most those of `most`, whatever programs they
  /// are of; returns how many.
  std::uint32_t reserve(const void* team, const Need& most);
  /// Counts no more blocks of the team than that, on any GPU.
  void limit(const void* team, std::uint32_t blocks);
  /// Counts nothing of the team any more: none of its kernels is to run, nor runs.
  void give_back(const void* team);

 private:
  struct Taken {
    std::uint32_t blocks = 0;            ///< the most of a program
    std::uint32_t at_once = UINT32_MAX;  ///< the least of a program
  };
  std::uint32_t room_as_holder(const void* team, int device, std::uint32_t at_once) const;

  mutable ProcessMutex mu_;
  std::map<std::pair<int, const void*>, Taken> taken_;  // guarded by mu_
};

}  // namespace ccoll::device
