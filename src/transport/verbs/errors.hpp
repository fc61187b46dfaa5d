// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The failures for completions with an error, and for requests that a device refuses. Pure.

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "core/result.hpp"

namespace ccoll::verbs {

/// The two ends of a queue pair, for messages.
struct Path {
  std::uint32_t peer = 0;  ///< rank of the job
  std::string host;        ///< the peer's
  std::string device;      ///< this end's, with its port
  bool is_down = false;    ///< that port is known to be down
};

/// Whether the status only means that its queue pair had already failed for another reason.
inline bool is_flush(ibv_wc_status status) { return status == IBV_WC_WR_FLUSH_ERR; }

/// For any status but success.
Failure failure_of(ibv_wc_status status, std::uint32_t vendor_code, const Path& path);

/// For a device that has neither confirmed nor given up a request for `waited`.
Failure failure_of_stalled(std::chrono::duration<double> waited, const Path& path);

/// For a request "to send" or "to receive" that failed with errno `code`.
Failure failure_to_post(const char* what, int code, const Path& path);

}  // namespace ccoll::verbs
