// SPDX-License-Identifier: Apache-2.0
#pragma once

/// RDMA devices, which stay open from their first use on: opened before what is held is counted.

#include <asio/post.hpp>
#include <future>

#include "net/service.hpp"
#include "transport/transport.hpp"

namespace ccoll::testing {

/// The service thread hears them when this returns; it would end with the last communicator.
inline void open_devices() {
  static_cast<void>(usable_fabrics());
  std::promise<void> heard;
  asio::post(net::Service::shared()->context(), [&] { heard.set_value(); });
  heard.get_future().wait();
}

}  // namespace ccoll::testing
