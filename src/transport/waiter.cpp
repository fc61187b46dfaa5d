// SPDX-License-Identifier: Apache-2.0
#include "transport/waiter.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/os_error.hpp"

namespace ccoll {

Result<std::shared_ptr<Waiter>> Waiter::make() {
  FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.open()) return fail(ErrorKind::exhausted, "epoll_create1: {}", os_error(errno));
  auto bell = Bell::make();
  if (!bell) return tl::unexpected(bell.error());
  std::shared_ptr<Waiter> waiter(new Waiter(std::move(epoll), std::move(*bell)));
  // Written by others only: asking for EPOLLOUT would report it ready after every read.
  CCOLL_TRY(waiter->add(waiter->bell_->event().number(), EPOLLIN));
  return waiter;
}

void Waiter::sleep(std::chrono::nanoseconds limit) {
  // Rounded up, so that a deadline in less than a millisecond does not become a busy loop.
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  std::array<epoll_event, 32> events;
  const int ready = epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()),
                               static_cast<int>(std::clamp<long long>(milliseconds, 0, 60'000)));
  const int event = bell_->event().number();
  for (int i = 0; i < ready; i++) {
    if (events[static_cast<std::size_t>(i)].data.fd != event) continue;
    std::uint64_t count;
    (void)!read(event, &count, sizeof count);
  }
}

Status Waiter::watch(int fd) { return add(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP); }

Status Waiter::add(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events | EPOLLET;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, fd, &event) != 0)
    return fail(ErrorKind::exhausted, "epoll_ctl: {}", os_error(errno));
  return {};
}

}  // namespace ccoll
