// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Opens RDMA devices, which stay open from their first use, before a test counts resources.

#include <asio/post.hpp>
#include <future>

#include "net/service.hpp"
#include "transport/transport.hpp"

namespace ccoll::testing {

/// On return the service thread listens to them; it would otherwise end with the last communicator.
inline void open_devices() {
  static_cast<void>(usable_fabrics());
  std::promise<void> heard;
  asio::post(net::Service::shared()->context(), [&] { heard.set_value(); });
  heard.get_future().wait();
}

}  // namespace ccoll::testing
