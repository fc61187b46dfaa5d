// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Signals: their names in settings, and threads that take none.

#include <pthread.h>

#include <csignal>
#include <string>

#include "core/result.hpp"

namespace ccoll {

/// The signal "USR1", "USR2", "QUIT", or a real-time one such as "RTMIN+3"; "SIG" may precede.
Result<int> signal_named(const std::string& name);

/// Blocks every signal of the calling thread while it lives. A thread started meanwhile inherits
/// that, so the program's handlers never run on a thread that it does not know.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ccoll
