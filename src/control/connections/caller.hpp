// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How one rank calls the listeners of others, and says who it is. Service thread only.

#include <asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "control/control.hpp"
#include "control/wire.hpp"
#include "net/listener.hpp"
#include "net/service.hpp"
#include "net/wire/stream.hpp"

namespace ccoll::control {

class Caller {
 public:
  /// Draws the nonce of this rank's row. Callable on any thread.
  Caller(const std::shared_ptr<net::Service>& service, const Control::Membership& membership);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  /// This rank's.
  const Row& row() const { return row_; }
  Hello hello_to(const Row& callee) const { return {rank_, size_, callee.nonce, row_}; }

  /// As net::connect_once; none if the service has ended.
  asio::awaitable<std::optional<Result<net::Stream>>> connect(
      PeerAddress callee, std::chrono::milliseconds limit) const;
  /// Asks the process in that row whether it is there. Returns the answer. Failures other than
  /// peer_lost or mismatch may only mean a slow rank.
  asio::awaitable<Result<std::string>> ask(Row row, std::chrono::milliseconds patience) const;

 private:
  const std::weak_ptr<net::Service> service_;
  const std::uint32_t rank_;
  const std::uint32_t size_;
  const net::Credentials credentials_;
  const Row row_;
};

}  // namespace ccoll::control
