// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CCOLL_DUMP_SIGNAL: a signal to the process at which each of its communicators writes its dump,
/// also where all its threads are stuck: the handler only wakes the service thread.

#include <memory>

#include "ccoll/communicator.hpp"

namespace ccoll {

class DumpSignal {
 public:
  /// For a communicator that has just been made, which holds it; null where no signal is asked for,
  /// or it cannot be had, of which it warns once.
  static std::shared_ptr<DumpSignal> join(
      const std::shared_ptr<Communicator::Implementation>& communicator);
  virtual ~DumpSignal() = default;
};

}  // namespace ccoll
