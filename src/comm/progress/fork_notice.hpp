// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Tells objects of this process that they are a forked child's copy. Only the thread that forked
/// goes on there, and whatever the others held stays held.

#include <list>

namespace ccoll {

class ForkNotice {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    /// In the child, before fork() returns there. It is the only thread; it must not allocate.
    virtual void forked() = 0;
  };

  /// Tells `listener` until this object ends; the listener must outlive it.
  explicit ForkNotice(Listener& listener);
  ~ForkNotice();
  ForkNotice(const ForkNotice&) = delete;
  ForkNotice& operator=(const ForkNotice&) = delete;

 private:
  std::list<Listener*>::iterator place_;
};

}  // namespace ccoll
