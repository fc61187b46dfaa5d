// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A descriptor that a process keeps while it listens, so that a peer that comes when there is no
/// other left can be let in to hear of it, and does not wait at the door until its time limit.

#include <memory>
#include <mutex>

#include "system/file_descriptor.hpp"

namespace ccoll::net {

/// Thread-safe.
class Spare {
 public:
  /// The one of this process, as long as anybody has it.
  static std::shared_ptr<Spare> of_process();

  /// Gives it up for a connection that is to be accepted. False if it is not there.
  bool spend();
  /// Whether it is there, or is again.
  bool restore();

 private:
  std::mutex mutex_;
  FileDescriptor descriptor_;  // guarded by mutex_
};

/// Whether descriptors are left for a connection that was let in. If not, its peer is to be told
/// so and the connection closed, which restores the spare one.
bool has_descriptors_left();

}  // namespace ccoll::net
