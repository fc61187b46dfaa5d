// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Who hears of the asynchronous events of this process's devices: the service thread, which sleeps
/// on their descriptors as on any other.

#include <memory>

#include "net/service.hpp"
#include "transport/verbs/device/device.hpp"

namespace ccoll::verbs {

class Listener {
 public:
  virtual ~Listener() = default;
  /// The process's; events are heard while somebody holds it. Thread-safe.
  static std::shared_ptr<Listener> of_process(const std::shared_ptr<net::Service>& service,
                                              const Devices& devices);
};

}  // namespace ccoll::verbs
