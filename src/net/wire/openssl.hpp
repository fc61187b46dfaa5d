// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "system/process_mutex.hpp"

namespace ccoll::net {

/// Around each use of OpenSSL but that of a connection that stands: OpenSSL has locks of the whole
/// process, which a child must not find held. Where the program has not used OpenSSL before, it
/// takes nothing down at exit: our threads may still use it, and in a forked child its clean-up
/// would wait for ever for such a lock. Where the program has used it before, it does at exit: so a
/// static object whose threads use it comes after a first use, and ends earlier.
class UsingOpenSsl {
 public:
  UsingOpenSsl();

  /// What a thread does that ends and has used it.
  static void leave_thread();

 private:
  const NoFork no_fork_;
};

}  // namespace ccoll::net
