// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads another process's memory without mapping it (process_vm_readv(2)). The receiver then
/// copies ordinary memory once, instead of the two copies into and out of a slot. The kernel allows
/// that between processes of one user, unless forbidden (Yama's ptrace_scope, a container's seccomp
/// filter, PR_SET_DUMPABLE). So it is tried before use, and may fail later: privileges change, and
/// device memory may be unreadable.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "core/result.hpp"

namespace ccoll::shm {

/// Identifies a process by the value at that address, even if another process gets its number.
struct ProcessMark {
  std::uint64_t address = 0;  ///< 0: the process must not be read from
  std::uint64_t value = 0;
};

/// The mark of this process.
ProcessMark process_mark();

class PeerMemory {
 public:
  /// `process`: its number in this namespace. Fails if it cannot be read from.
  static Result<PeerMemory> reach(pid_t process, const ProcessMark& mark);

  /// Copies `bytes` from `address` there. `peer_lost` if the process is another one by now; any
  /// other failure may concern only this memory or this moment.
  Status read(std::uint64_t address, std::byte* to, std::size_t bytes) const;

 private:
  PeerMemory(pid_t process, const ProcessMark& mark) : process_(process), mark_(mark) {}

  pid_t process_;
  ProcessMark mark_;
};

}  // namespace ccoll::shm
