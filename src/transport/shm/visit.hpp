// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank's visits at another's door (door.hpp), and what either end reads there. On the service
/// thread.

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

/// The peer's door has stood since start-up.
inline constexpr std::chrono::seconds kPatience{10};

/// The process at the other end, as this one's namespace numbers it (0: it does not), if it is the
/// same user's; `who` it is, for the message.
Result<pid_t> process_of_user(Socket& socket, std::string_view who);

/// At least so much later than its peers a rank may be with its start-up.
inline constexpr std::chrono::seconds kDoorOpens{3};

/// How long who comes waits for a rank whose start-up may not be over: until then, as long as
/// `wanted` says so.
struct DoorWait {
  std::chrono::steady_clock::time_point end;
  std::function<bool()> wanted;
};

/// Connects and proves that it knows the token, once the door is open and its rank awake.
asio::awaitable<Status> enter(Socket& socket, Protocol::endpoint door, std::string token,
                              net::Purpose purpose, DoorWait wait);

/// Sends it as soon as that is possible, trying while `go_on` says so: an unprivileged user has
/// only so many descriptors on their way at a time, and a peer that has stopped reads nothing.
asio::awaitable<Status> send(Socket& socket, std::string bytes, std::vector<int> descriptors,
                             std::function<bool()> go_on);
/// What comes next, up to so many bytes, with its descriptors.
asio::awaitable<Result<WithDescriptors>> receive(Socket& socket, std::size_t bytes);
/// So many bytes, and none of what comes behind them.
asio::awaitable<Result<std::string>> receive_exactly(Socket& socket, std::size_t bytes);

}  // namespace ccoll::shm
