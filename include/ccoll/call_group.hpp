// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls that are begun one after the other and waited for together, as between ncclGroupStart and
/// ncclGroupEnd: so one thread drives several ranks, or sends and receives in any order.

#include "ccoll/version.hpp"

namespace ccoll {

/// From here to the matching group_end, blocking calls of this thread, on any communicators, only
/// begin: their buffers belong to them, and their results are there when the outermost group_end
/// has returned. Groups nest. Other threads' calls and asynchronous calls work as always. Two kinds
/// of calls come into their streams only when the group ends, or this thread waits for a Work (see
/// group_end): calls for which GPUs wait for each other's (a team's), and blocking messages. This
/// thread's later calls in streams follow them, in the order of its calls, while other work that
/// the caller puts into those streams meanwhile goes before them. Calls whose result the caller
/// needs at once (split, subgroup, a mesh, probe) cannot wait for the end: they are
/// Error{invalid_argument}. recv, send_recv and batch do not know here what came and return
/// Received{}, or nothing: only the Work of their `*_async` forms has it.
///
/// A call with wrong arguments throws at once; calls begun before it go on.
CCOLL_API void group_begin();

/// Waits until all calls of the group are over, moving all of them on, and then throws the first
/// failure among them, in the order of the calls. The end of an inner group does nothing. Throws
/// Error{invalid_argument} if no group is open.
///
/// Work::wait in the open group first lets calls that were put off come into their streams, until
/// its own is over or its time has passed. Work::test lets them go on as far as they can without
/// waiting. Each ends by its own time limit at the latest. group_end throws their failures, too.
/// While a call is put off, no other thread may make calls in streams of its communicator, which
/// would come into them before it.
CCOLL_API void group_end();

/// A group as long as a scope.
class CCOLL_API CallGroup {
 public:
  CallGroup() { group_begin(); }
  /// Without end() before it (after an exception, say): waits, and only logs the first failure.
  ~CallGroup();
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  /// Calls group_end. Only once.
  void end();

 private:
  bool ended_ = false;
};

}  // namespace ccoll
