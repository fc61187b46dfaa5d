// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls that are begun one after the other and waited for together, as between ncclGroupStart and
/// ncclGroupEnd: so one thread drives several ranks, or sends and receives in any order.

#include "ccoll/version.hpp"

namespace ccoll {

/// From here to the matching group_end, blocking calls that this thread makes, on any
/// communicators, only begin: their buffers belong to them, and their results are there, when the
/// outermost group_end has returned. Groups nest. Other threads' calls and asynchronous calls are
/// as ever. A call for which GPUs wait for each other's (a team's), or a blocking message, comes
/// into its stream only when the group ends (or this thread waits for a Work, see group_end), and
/// so does what this thread calls in streams after it, in the order of its calls: what else the
/// caller puts into those streams meanwhile is before them. What a call makes for its caller
/// (split, subgroup, a mesh) or tells it (probe) cannot wait for the end and is refused with
/// Error{invalid_argument}. What came, recv, send_recv and batch cannot tell here and return
/// Received{}, or nothing: only the Work of their `*_async` forms tells.
///
/// A call with wrong arguments throws at once; those begun before go on.
CCOLL_API void group_begin();

/// Waits until all calls of the group are over, moving all of them on, and then throws the first
/// failure among them, in the order of the calls. Of an inner group: does nothing. Throws
/// Error{invalid_argument} where no group was begun.
///
/// Work::wait in the open group has calls that were put off come into their streams first, until
/// its own is over or its time has passed; Work::test has them go on as far as they can without
/// waiting. Each ends by its own time limit at the latest. What fails then group_end throws, too.
/// As long as a call is put off no other thread makes calls in streams of its communicator, which
/// would come into them before it.
CCOLL_API void group_end();

/// A group as long as a scope.
class CCOLL_API CallGroup {
 public:
  CallGroup() { group_begin(); }
  /// Where end() was not called (an exception, say): waits; the first failure goes to the log only.
  ~CallGroup();
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  /// group_end. Once.
  void end();

 private:
  bool ended_ = false;
};

}  // namespace ccoll
