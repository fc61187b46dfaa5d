// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "system/locks.hpp"

namespace ccoll::net {

/// Guards each use of OpenSSL, except on an established connection: OpenSSL has process-wide locks,
/// which a forked child must not find held. If the program has not used OpenSSL before, this turns
/// off its clean-up at exit. Our threads may still use it then, and in a forked child the clean-up
/// would wait for ever for a lock. If the program used it before, clean-up runs at exit: a static
/// object whose threads use OpenSSL must be made after a first use, so that it ends earlier.
class UsingOpenSsl {
 public:
  UsingOpenSsl();

  /// Called by a thread that has used OpenSSL, before it ends.
  static void leave_thread();

 private:
  const NoFork no_fork_;
};

}  // namespace ccoll::net
