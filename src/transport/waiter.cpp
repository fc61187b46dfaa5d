// SPDX-License-Identifier: Apache-2.0
#include "transport/waiter.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "core/deadline.hpp"
#include "core/os_error.hpp"

namespace ccoll {
namespace {

using Clock = std::chrono::steady_clock;

/// Rounded up, so that a deadline in less than a millisecond does not become a busy loop.
int whole_milliseconds(Clock::duration time) {
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return static_cast<int>(std::clamp<long long>(rounded, 0, 60'000));
}

/// Waits for events of that set and takes them; returns whether any is not the chime's.
bool take_events(int set, int milliseconds) {
  std::array<epoll_event, 32> events;
  const int ready = epoll_wait(set, events.data(), static_cast<int>(events.size()), milliseconds);
  const auto is_of_socket = [](const epoll_event& each) { return each.data.u64 != Chime::kMark; };
  return std::any_of(events.begin(), events.begin() + std::max(ready, 0), is_of_socket);
}

}  // namespace

Result<std::shared_ptr<Waiter>> Waiter::make() {
  return Chime::make().and_then([](auto chime) { return make(std::move(chime)); });
}

Result<std::shared_ptr<Waiter>> Waiter::make(std::shared_ptr<Chime> chime) {
  return Doorbell::make(std::move(chime)).map([](auto doorbell) {
    return std::shared_ptr<Waiter>(new Waiter(std::move(doorbell)));
  });
}

void Waiter::sleep(std::chrono::nanoseconds limit) {
  const auto end = deadline_after(limit);
  const int sockets = socket_set();
  const auto lease =
      sockets >= 0 || limit.count() <= 0 ? Chime::Lease() : doorbell_->chime().lease_set();
  const int set = sockets >= 0 ? sockets : lease.descriptor();
  // A ring for another waiter ends no sleep.
  for (auto left = limit;; left = end - Clock::now()) {
    const bool is_over = rung() || left.count() <= 0;
    if (set >= 0 && take_events(set, is_over ? 0 : whole_milliseconds(left))) break;
    if (is_over) break;
    if (set < 0) std::this_thread::sleep_for(std::min<Clock::duration>(left, kNap));
  }
  seen_ = doorbell_->rings();
}

Status Waiter::watch(int fd) {
  const auto sockets = sockets_.lock();
  if (!sockets->open()) {
    auto set = doorbell_->chime().make_set();
    if (!set) return tl::unexpected(set.error());
    *sockets = std::move(*set);
    socket_set_.store(sockets->number(), std::memory_order_release);
    // A thread that sleeps on another set must switch to this one.
    ring();
  }
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = static_cast<std::uint64_t>(fd);
  if (epoll_ctl(sockets->number(), EPOLL_CTL_ADD, fd, &event) != 0)
    return fail(ErrorKind::exhausted, "epoll_ctl: {}", os_error(errno));
  return {};
}

Waiter::Place Waiter::place() {
  Place place;
  place.sockets_ = socket_set();
  if (place.sockets_ >= 0) return place;
  place.lease_ = doorbell_->chime().lease_set();
  // Left over from rings for others.
  if (place.descriptor() >= 0) take_events(place.descriptor(), 0);
  return place;
}

void CommonSleep::add(Waiter& waiter) {
  waiters_.push_back(&waiter);
  const Chime* const chime = &waiter.doorbell()->chime();
  if (!waiter.has_sockets()) {
    if (std::ranges::find(chimes_, chime) != chimes_.end()) return;
    chimes_.push_back(chime);
  }
  places_.push_back(waiter.place());
}

void CommonSleep::sleep(std::chrono::milliseconds limit) {
  if (std::ranges::any_of(waiters_, &Waiter::rung)) return;
  std::vector<pollfd> watched;
  for (const auto& place : places_) {
    if (place.descriptor() < 0) limit = std::min(limit, Waiter::kNap);
    watched.push_back({place.descriptor(), POLLIN, 0});
  }
  ::poll(watched.data(), watched.size(), whole_milliseconds(limit));
}

}  // namespace ccoll
