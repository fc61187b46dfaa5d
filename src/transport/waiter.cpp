// SPDX-License-Identifier: Apache-2.0
#include "transport/waiter.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ccoll {

Result<std::shared_ptr<Waiter>> Waiter::make() {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return fail(ErrorKind::exhausted, "epoll_create1: {}", std::strerror(errno));
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) {
    const int code = errno;
    close(epoll);
    return fail(ErrorKind::exhausted, "eventfd: {}", std::strerror(code));
  }
  std::shared_ptr<Waiter> waiter(new Waiter(epoll, event));
  CCOLL_TRY(waiter->watch(event));
  return waiter;
}

Waiter::~Waiter() {
  close(event_);
  close(epoll_);
}

void Waiter::sleep(std::chrono::nanoseconds limit) {
  // Rounded up, so that a deadline in less than a millisecond does not become a busy loop.
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  std::array<epoll_event, 32> events;
  const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                               static_cast<int>(std::clamp<long long>(milliseconds, 0, 60'000)));
  for (int i = 0; i < ready; i++) {
    if (events[static_cast<std::size_t>(i)].data.fd != event_) continue;
    std::uint64_t count;
    (void)!read(event_, &count, sizeof count);
  }
}

void Waiter::ring() {
  const std::uint64_t one = 1;
  (void)!write(event_, &one, sizeof one);
}

Status Waiter::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  // The eventfd is edge-triggered too but never written by its own end; asking for EPOLLOUT there
  // would report it ready after every read.
  if (fd != event_) event.events |= EPOLLOUT | EPOLLRDHUP;
  event.data.fd = fd;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
    return fail(ErrorKind::exhausted, "epoll_ctl: {}", std::strerror(errno));
  return {};
}

}  // namespace ccoll
