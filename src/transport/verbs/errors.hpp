// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a completion that failed, or a device that refuses a request, means for the caller. Pure.

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "core/result.hpp"

namespace ccoll::verbs {

/// Between which two a queue pair's packets travel, for messages.
struct Path {
  std::uint32_t peer = 0;  ///< rank of the job
  std::string host;        ///< the peer's
  std::string device;      ///< this end's, with its port
  bool is_down = false;    ///< that port is known to be
};

/// Whether it only says that its queue pair had failed before, of something else.
inline bool is_flush(ibv_wc_status status) { return status == IBV_WC_WR_FLUSH_ERR; }

/// Of any status but success.
Failure failure_of(ibv_wc_status status, std::uint32_t vendor_code, const Path& path);

/// Of a device that has neither confirmed a request nor given it up in all that time.
Failure failure_of_stalled(std::chrono::duration<double> waited, const Path& path);

/// Of a request "to send" or "to receive" that ended with this errno.
Failure failure_to_post(const char* what, int code, const Path& path);

}  // namespace ccoll::verbs
