// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which libnccl a running process calls: several may be mapped, of which the loader's order says
/// whose functions win.

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/result.hpp"

namespace ccoll {

struct NcclInUse {
  std::string path;  ///< of the library whose functions are called, or of the program itself
  bool is_ours = false;
  /// It is part of the program, so that no other library can take its place.
  bool is_static = false;
  /// False: there are several, and in which order they were loaded could not be seen.
  bool is_certain = true;
  std::vector<std::string> others;  ///< libraries that are mapped too, and not called
};

/// Fails where there is no such process, it may not be looked at, or it has no libnccl.
Result<NcclInUse> nccl_of(pid_t process);

/// As cc-run prints it.
std::string text(pid_t process, const NcclInUse& use);

}  // namespace ccoll
