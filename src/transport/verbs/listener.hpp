// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Receives the asynchronous events of this process's devices, on the service thread, which sleeps
/// on their descriptors as on any other.

#include <memory>

#include "net/service.hpp"
#include "transport/verbs/device/device.hpp"

namespace ccoll::verbs {

class Listener {
 public:
  virtual ~Listener() = default;
  /// The process's listener; it receives events while somebody holds it. Thread-safe.
  static std::shared_ptr<Listener> of_process(const std::shared_ptr<net::Service>& service,
                                              const Devices& devices);
};

}  // namespace ccoll::verbs
