// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads from another process's memory without mapping it (process_vm_readv(2)), so that what lies
/// in ordinary memory there is copied once, by who receives it, instead of into a slot and out of
/// it. Between processes of one user the kernel allows that unless told otherwise (Yama's
/// ptrace_scope, a container's seccomp filter, PR_SET_DUMPABLE): so it is tried before it is used,
/// and not relied on afterwards: privileges change, and memory of devices may not be read so.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "core/result.hpp"

namespace ccoll::shm {

/// By which a process's memory is told from any other's that may come to have its number: what lies
/// at that address is that value.
struct ProcessMark {
  std::uint64_t address = 0;  ///< 0: the process is not to be read from
  std::uint64_t value = 0;
};

/// Of this process.
ProcessMark process_mark();

class PeerMemory {
 public:
  /// `process`: as this process's namespace numbers it. Fails where it cannot be read from.
  static Result<PeerMemory> reach(pid_t process, const ProcessMark& mark);

  /// Copies so many bytes from `address` there. `peer_lost` where there is another process now;
  /// any other failure may be one of this memory only, or of this moment.
  Status read(std::uint64_t address, std::byte* to, std::size_t bytes) const;

 private:
  PeerMemory(pid_t process, const ProcessMark& mark) : process_(process), mark_(mark) {}

  pid_t process_;
  ProcessMark mark_;
};

}  // namespace ccoll::shm
