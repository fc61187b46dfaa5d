// SPDX-License-Identifier: Apache-2.0
#include "gpu/exchange_door.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/os_error.hpp"
#include "system/descriptors.hpp"

namespace ccoll::device {
namespace {

using Clock = std::chrono::steady_clock;

/// The first message of a peer that connects.
struct Hello {
  std::array<std::uint64_t, 2> secret{};
  std::uint32_t rank = 0;
  std::uint32_t unused = 0;
};

/// How long such a peer has to send it.
constexpr std::chrono::seconds kForHello{2};

struct SocketName {
  sockaddr_un address{};
  socklen_t bytes = 0;
};

SocketName name_of(const DoorAddress& door) {
  SocketName name;
  name.address.sun_family = AF_UNIX;
  // The first byte is 0: an abstract name.
  const auto text = fmt::format("ccoll-gpu-{:016x}{:016x}", door.name[0], door.name[1]);
  text.copy(name.address.sun_path + 1, sizeof name.address.sun_path - 1);
  name.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

Result<FileDescriptor> unix_socket() {
  FileDescriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.open()) return fail(ErrorKind::exhausted, "socket: {}", os_error(errno));
  return made;
}

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/// Waits until something can be read, or accepted; false if nothing can by the deadline.
bool is_ready(int socket, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd watched{socket, POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000))) > 0)
      return true;
    if (Clock::now() >= deadline) return false;
  }
}

}  // namespace

Result<ExchangeDoor> ExchangeDoor::open() {
  std::random_device random;
  const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
  const DoorAddress address{{word(), word()}, {word(), word()}};
  auto listener = unix_socket();
  if (!listener) return tl::unexpected(std::move(listener.error()));
  const auto name = name_of(address);
  if (bind(listener->number(), reinterpret_cast<const sockaddr*>(&name.address), name.bytes) != 0 ||
      listen(listener->number(), SOMAXCONN) != 0) {
    return fail(ErrorKind::exhausted, "a Unix socket to exchange descriptors: {}", os_error(errno));
  }
  return ExchangeDoor(address, std::move(*listener));
}

Result<std::unique_ptr<Exchange>> ExchangeDoor::meet(std::uint32_t rank,
                                                     std::span<const DoorAddress> addresses,
                                                     Exchange::TimePoint deadline) {
  std::vector<FileDescriptor> sockets;
  for (std::size_t i = 0; i < addresses.size(); ++i) sockets.emplace_back();
  for (std::uint32_t peer = 0; peer < rank; ++peer) {
    auto connected = connect(rank, addresses[peer], deadline);
    if (!connected) {
      return fail(connected.error().kind, "rank {}: {}", peer, connected.error().message);
    }
    sockets[peer] = std::move(*connected);
  }
  for (std::size_t missing = addresses.size() - 1 - rank; missing > 0;) {
    const auto came = accept(sockets, deadline);
    if (!came) return tl::unexpected(came.error());
    if (*came) --missing;
  }
  return std::make_unique<SocketExchange>(rank, std::move(sockets));
}

Result<FileDescriptor> ExchangeDoor::connect(std::uint32_t rank, const DoorAddress& to,
                                             Exchange::TimePoint deadline) const {
  auto made = unix_socket();
  if (!made) return tl::unexpected(std::move(made.error()));
  const auto name = name_of(to);
  while (::connect(made->number(), reinterpret_cast<const sockaddr*>(&name.address), name.bytes) !=
         0) {
    // Many other peers may be in front of the door.
    if ((errno != EAGAIN && errno != EINTR) || Clock::now() >= deadline)
      return fail(ErrorKind::unsupported, "its Unix socket cannot be reached: {}", os_error(errno));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!is_same_user(made->number()))
    return fail(ErrorKind::unsupported, "its Unix socket belongs to another user");
  const Hello hello{to.secret, rank};
  std::string bytes(sizeof hello, '\0');
  std::memcpy(bytes.data(), &hello, sizeof hello);
  if (auto sent = shm::send_with_descriptors(made->number(), bytes, {}); !sent)
    return tl::unexpected(std::move(sent.error()));
  return made;
}

Result<std::optional<std::uint32_t>> ExchangeDoor::accept(std::vector<FileDescriptor>& sockets,
                                                          Exchange::TimePoint deadline) const {
  if (!is_ready(listener_.number(), deadline))
    return fail(ErrorKind::timed_out, "not all ranks have come to exchange descriptors in time");
  FileDescriptor came(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!came.open()) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return std::nullopt;
    return fail(ErrorKind::exhausted, "accept: {}", os_error(errno));
  }
  if (!is_same_user(came.number())) return std::nullopt;
  std::string bytes;
  const auto limit = std::min<Clock::time_point>(deadline, Clock::now() + kForHello);
  while (bytes.size() < sizeof(Hello)) {
    if (!is_ready(came.number(), limit)) return std::nullopt;
    auto some = shm::receive_with_descriptors(came.number(), sizeof(Hello) - bytes.size());
    if (!some) return std::nullopt;
    bytes += some->bytes;
  }
  Hello hello;
  std::memcpy(&hello, bytes.data(), sizeof hello);
  const bool is_right =
      hello.secret == address_.secret && hello.rank < sockets.size() && !sockets[hello.rank].open();
  if (!is_right) return std::nullopt;
  sockets[hello.rank] = std::move(came);
  return hello.rank;
}

}  // namespace ccoll::device
