// SPDX-License-Identifier: Apache-2.0
#include "net/spare.hpp"

#include <sys/eventfd.h>

#include "system/process_mutex.hpp"

namespace ccoll::net {
namespace {

struct OfProcess {
  ProcessMutex mutex;
  std::weak_ptr<Spare> spare;  // guarded by mutex
};

OfProcess& of_this_process() {
  // Never destroyed: listeners may end later, at exit.
  static auto& instance = *new OfProcess;
  return instance;
}

/// Made before main: at its first use another thread could already be in fork().
[[maybe_unused]] const auto& spare_made_early = of_this_process();

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
  return descriptor_.open();
}

bool has_descriptors_left() {
  auto& [mutex, spare] = of_this_process();
  const std::lock_guard lock(mutex);
  const auto there = spare.lock();
  return there == nullptr || there->restore();
}

}  // namespace ccoll::net
