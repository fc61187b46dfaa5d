// SPDX-License-Identifier: Apache-2.0
#include "run/output.hpp"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ccoll {

int Output::write_some() {
  std::size_t written = 0;
  int error = 0;
  while (written < kept_.size() && error == 0) {
    // O_NONBLOCK would affect everyone who shares the descriptor; instead, poll() guarantees room
    // for PIPE_BUF bytes.
    pollfd writable{descriptor_, POLLOUT, 0};
    if (::poll(&writable, 1, 0) == 0) break;
    const auto count = std::min<std::size_t>(kept_.size() - written, PIPE_BUF);
    const ssize_t got = ::write(descriptor_, kept_.data() + written, count);
    if (got >= 0)
      written += static_cast<std::size_t>(got);
    else if (errno == EAGAIN)
      break;
    else if (errno != EINTR)
      error = errno;
  }
  if (error != 0) error_ = error;
  kept_.erase(0, error != 0 ? kept_.npos : written);
  return error;
}

}  // namespace ccoll
