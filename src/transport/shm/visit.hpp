// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank's visits at another's door (door.hpp), and how both ends read and write there. Service
/// thread only.

#include <sys/types.h>

#include <asio/awaitable.hpp>
#include <asio/local/stream_protocol.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "net/handshake.hpp"
#include "system/descriptors.hpp"

namespace ccoll::shm {

using Protocol = asio::local::stream_protocol;
using Socket = Protocol::socket;

/// Time limit for a peer whose door has been open since start-up.
inline constexpr std::chrono::seconds kPatience{10};

/// The process at the other end, numbered in this namespace (0: it has no number there), if the
/// same user runs it; `who`: its name for the message.
Result<pid_t> process_of_user(Socket& socket, std::string_view who);

/// Minimum time by which a rank may finish start-up later than its peers.
inline constexpr std::chrono::seconds kDoorOpens{3};

/// How long to wait for a rank that may still be starting: until `end`, while `wanted` returns
/// true.
struct DoorWait {
  std::chrono::steady_clock::time_point end;
  std::function<bool()> wanted;
};

/// Connects once the door is open and its rank awake, and proves knowledge of the token.
asio::awaitable<Status> enter(Socket& socket, Protocol::endpoint door, std::string token,
                              net::Purpose purpose, DoorWait wait);

/// Sends as soon as possible, retrying while `go_on` returns true: the descriptors that an
/// unprivileged user may have in flight are limited, and a stopped peer reads nothing.
asio::awaitable<Status> send(Socket& socket, std::string bytes, std::vector<int> descriptors,
                             std::function<bool()> go_on);
/// Receives up to `bytes` bytes, with their descriptors.
asio::awaitable<Result<WithDescriptors>> receive(Socket& socket, std::size_t bytes);
/// Receives exactly `bytes` bytes and reads none beyond them.
asio::awaitable<Result<std::string>> receive_exactly(Socket& socket, std::size_t bytes);

}  // namespace ccoll::shm
