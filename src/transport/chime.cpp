// SPDX-License-Identifier: Apache-2.0
#include "transport/chime.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <utility>

#include "core/os_error.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

/// With this many peers known, of_peer() begins to look for chimes that are gone.
constexpr std::size_t kFew = 64;

struct Known {
  /// Key: the memory of the process's bells, and the chime's number there.
  std::map<std::pair<const Segment*, std::uint32_t>, std::weak_ptr<Chime>> chimes;
  std::size_t look_at = kFew;  ///< size at which to drop some
};

/// How many chimes this process has made; those of peers do not count.
struct Made {
  std::atomic<std::uint32_t> count{0};
};

}  // namespace

Result<std::shared_ptr<Chime>> Chime::make() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.open()) return fail(ErrorKind::exhausted, "eventfd: {}", os_error(errno));
  const auto number = Runtime::one<Made>().count++ % kNumbers;
  std::shared_ptr<Chime> made(new Chime(std::move(event), number, nullptr));
  // Report a lack of descriptors here, not at the first sleep.
  auto set = made->make_set();
  if (!set) return tl::unexpected(set.error());
  made->free_.lock()->push_back(std::move(*set));
  return made;
}

std::shared_ptr<Chime> Chime::of_peer(FileDescriptor event, std::shared_ptr<const Segment> cells,
                                      std::uint32_t number) {
  const auto known = Runtime::one<Guarded<Known, ProcessMutex>>().lock();
  auto& entry = known->chimes[{cells.get(), number}];
  if (auto there = entry.lock()) return there;
  std::shared_ptr<Chime> made(new Chime(std::move(event), number, std::move(cells)));
  entry = made;
  if (known->chimes.size() >= known->look_at) {
    std::erase_if(known->chimes, [](const auto& each) { return each.second.expired(); });
    known->look_at = std::max(kFew, 2 * known->chimes.size());
  }
  return made;
}

void Chime::ring() {
  const std::uint64_t one = 1;
  (void)!write(event_.number(), &one, sizeof one);
}

Result<FileDescriptor> Chime::make_set() const {
  FileDescriptor set(epoll_create1(EPOLL_CLOEXEC));
  if (!set.open()) return fail(ErrorKind::exhausted, "epoll_create1: {}", os_error(errno));
  epoll_event event{};
  // Edge-triggered: each ring is an edge, though the event stays ready.
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = kMark;
  if (epoll_ctl(set.number(), EPOLL_CTL_ADD, event_.number(), &event) != 0)
    return fail(ErrorKind::exhausted, "epoll_ctl: {}", os_error(errno));
  return set;
}

Chime::Lease Chime::lease_set() {
  {
    const auto free = free_.lock();
    if (!free->empty()) {
      Lease lease(shared_from_this(), std::move(free->back()));
      free->pop_back();
      return lease;
    }
  }
  auto made = make_set();
  return made ? Lease(shared_from_this(), std::move(*made)) : Lease();
}

Chime::Lease::~Lease() {
  if (!set_.open()) return;
  const auto free = of_->free_.lock();
  if (free->size() < kMostFree) free->push_back(std::move(set_));
}

Result<std::shared_ptr<Chime>> Chimes::next() {
  const auto all = all_.lock();
  const auto least =
      std::ranges::min_element(*all, {}, [](const auto& each) { return each.use_count(); });
  if (auto there = least->lock()) return there;
  auto made = Chime::make();
  if (made) *least = *made;
  return made;
}

}  // namespace ccoll
