// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What an asynchronous event of a device means: the failure of links, a remark, or nothing. Pure.

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/result.hpp"
#include "system/log.hpp"
#include "transport/verbs/errors.hpp"

namespace ccoll::verbs {

/// Which of an event's elements is set, and so whom it concerns.
enum class Concern : std::uint8_t {
  none,   ///< nothing that ccoll has
  pair,   ///< a queue pair
  queue,  ///< a completion queue
  port,
  device
};
Concern concern_of(ibv_event_type event);

/// Of a queue pair that the event ends: its own, that of its completion queue, or any of its
/// device; nothing for events that end none.
std::optional<Failure> failure_of(ibv_event_type event, const Path& path);

/// What a person is to be told of it, once for each process; `where`: the device, or its port.
struct Remark {
  LogLevel level = LogLevel::info;
  std::string text;
};
std::optional<Remark> remark_of(ibv_event_type event, const std::string& where);

}  // namespace ccoll::verbs
