// SPDX-License-Identifier: Apache-2.0
#include "net/lack.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "core/os_error.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll::net {
namespace {

struct OfProcess {
  ProcessMutex mutex;
  std::weak_ptr<Spare> spare;  // guarded by mutex
};

OfProcess& of_this_process() { return Runtime::one<OfProcess>(); }

}  // namespace

std::shared_ptr<Spare> Spare::of_process() {
  auto& [mutex, spare] = of_this_process();
  const std::lock_guard lock(mutex);
  auto there = spare.lock();
  if (!there) spare = there = std::make_shared<Spare>();
  there->restore();
  return there;
}

bool Spare::spend() {
  const std::lock_guard lock(mutex_);
  if (!descriptor_.open()) return false;
  descriptor_.close();
  return true;
}

bool Spare::restore() {
  const std::lock_guard lock(mutex_);
  if (!descriptor_.open()) descriptor_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  if (descriptor_.open()) starves_since_.reset();
  return descriptor_.open();
}

void Spare::starve(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!starves_since_) starves_since_ = now;
}

bool Spare::starves(std::chrono::milliseconds limit, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  return starves_since_ && now - *starves_since_ >= limit;
}

std::optional<Failure> lack_of_descriptors(std::chrono::milliseconds limit, Clock::time_point now) {
  auto& [mutex, spare] = of_this_process();
  const std::lock_guard lock(mutex);
  const auto there = spare.lock();
  if (there == nullptr || there->restore() || !there->starves(limit, now)) return std::nullopt;
  return Failure{ErrorKind::exhausted,
                 fmt::format("cannot accept connections: {}", os_error(EMFILE)), std::nullopt};
}

bool has_descriptors_left() {
  auto& [mutex, spare] = of_this_process();
  const std::lock_guard lock(mutex);
  const auto there = spare.lock();
  return there == nullptr || there->restore();
}

}  // namespace ccoll::net
