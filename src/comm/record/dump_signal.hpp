// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Makes communicators write dumps although they have not failed. One cause is the signal
/// CCOLL_DUMP_SIGNAL to their process, even if all its threads are stuck: the handler only wakes
/// the service thread. The other is the failure of another communicator, which may have waited for
/// a call that a rank would have made after one here.

#include <memory>

namespace ccoll {

class Dumps;

class DumpSignal {
 public:
  /// For the dumps of a communicator that has just been made, which holds it; null without
  /// CCOLL_DUMP. Warns once if the signal cannot be had.
  static std::shared_ptr<DumpSignal> join(const std::shared_ptr<Dumps>& dumps);
  virtual ~DumpSignal() = default;
  /// The communicator of `one` has failed: the others of its rank write their dumps, at once if no
  /// thread is in them. The caller may hold that communicator's owner flag.
  virtual void failed(const Dumps& one) = 0;
};

}  // namespace ccoll
