// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What makes communicators write their dumps that have not failed: the signal CCOLL_DUMP_SIGNAL to
/// their process, also where all its threads are stuck (the handler only wakes the service thread);
/// and the failure of another one, which may have waited for a call that a rank would have made
/// after one here.

#include <memory>

#include "ccoll/communicator.hpp"

namespace ccoll {

class DumpSignal {
 public:
  /// For a communicator that has just been made, which holds it; null without CCOLL_DUMP. Warns
  /// once where the signal cannot be had.
  static std::shared_ptr<DumpSignal> join(
      const std::shared_ptr<Communicator::Implementation>& communicator);
  virtual ~DumpSignal() = default;
  /// `one` has failed: the others of its rank write what they hold, now where nobody is in them.
  /// The caller may hold the owner flag of `one`.
  virtual void failed(const Communicator::Implementation& one) = 0;
};

}  // namespace ccoll
