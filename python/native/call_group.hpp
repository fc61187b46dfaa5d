// SPDX-License-Identifier: Apache-2.0
#pragma once

/// ccoll.CallGroup: calls of a thread that are begun one after the other and waited for together.

#include <vector>

#include "pending.hpp"

namespace ccoll::python {

class CallGroup {
 public:
  CallGroup() = default;
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;
  ~CallGroup() = default;

  /// The innermost one that this thread has open, or null.
  static CallGroup* of_thread();
  /// Throws Error{invalid_argument} where this thread has one open: `call` could not wait there.
  static void refuse(const char* call);

  /// Takes a call that has begun; returns what its caller gets now.
  nb::object add(Pending call);
  /// `self` is this one, which then lives until its exit.
  void enter(nb::object self);
  /// Waits for all of them; where an exception passes, for none.
  void exit(bool raised);

 private:
  std::vector<Pending> calls_;
  /// Takes it out of this thread's chain, wherever it is in it; false where it is not in it.
  bool unlink();

  CallGroup* outer_ = nullptr;
  nb::object self_;  ///< while it is open
  bool is_open_ = false;
};

}  // namespace ccoll::python
