// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which libnccl a running process calls: if several are mapped, the loader's order decides.

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/result.hpp"

namespace ccoll {

struct NcclInUse {
  std::string path;  ///< of the called library, or of the program itself
  bool is_ours = false;
  /// It is part of the program, so that no other library can replace it.
  bool is_static = false;
  /// False: there are several, and their order could not be determined.
  bool is_certain = true;
  std::vector<std::string> others;  ///< further mapped libraries, which are not called
};

/// Fails if there is no such process, it may not be inspected, or it has no libnccl.
Result<NcclInUse> nccl_of(pid_t process);

/// In cc-run's format.
std::string text(pid_t process, const NcclInUse& use);

}  // namespace ccoll
