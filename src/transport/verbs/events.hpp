// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The meaning of a device's asynchronous event: a failure of links, a log line, or nothing. Pure.

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/result.hpp"
#include "system/log.hpp"
#include "transport/verbs/errors.hpp"

namespace ccoll::verbs {

/// The kind of object that the event is about; it decides which element of the event is set.
enum class Concern : std::uint8_t {
  none,   ///< no object that ccoll uses
  pair,   ///< a queue pair
  queue,  ///< a completion queue
  port,
  device
};
Concern concern_of(ibv_event_type event);

/// The failure of the queue pairs that the event ends: its own, its completion queue's, or all of
/// its device's. None for events that end no pair.
std::optional<Failure> failure_of(ibv_event_type event, const Path& path);

/// A log line for the event, once per process; `where`: the device, or its port.
struct Remark {
  LogLevel level = LogLevel::info;
  std::string text;
};
std::optional<Remark> remark_of(ibv_event_type event, const std::string& where);

}  // namespace ccoll::verbs
