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

struct SpareOfProcess {
  std::weak_ptr<Spare> spare;
};
Guarded<SpareOfProcess, ProcessMutex>& spare_of_process() {
  return Runtime::one<Guarded<SpareOfProcess, ProcessMutex>>();
}

}  // namespace

std::shared_ptr<Spare> Spare::of_process() {
  const auto of_process = spare_of_process().lock();
  auto there = of_process->spare.lock();
  if (!there) of_process->spare = there = std::make_shared<Spare>();
  there->restore();
  return there;
}

bool Spare::spend() {
  const auto state = state_.lock();
  if (!state->descriptor.open()) return false;
  state->descriptor.close();
  return true;
}

bool Spare::restore() {
  const auto state = state_.lock();
  auto& descriptor = state->descriptor;
  if (!descriptor.open()) descriptor = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  if (descriptor.open()) state->starves_since.reset();
  return descriptor.open();
}

void Spare::starve(Clock::time_point now) {
  const auto state = state_.lock();
  if (!state->starves_since) state->starves_since = now;
}

bool Spare::starves(std::chrono::milliseconds limit, Clock::time_point now) {
  const auto state = state_.lock();
  return state->starves_since && now - *state->starves_since >= limit;
}

std::optional<Failure> lack_of_descriptors(std::chrono::milliseconds limit, Clock::time_point now) {
  const auto of_process = spare_of_process().lock();
  const auto there = of_process->spare.lock();
  if (there == nullptr || there->restore() || !there->starves(limit, now)) return std::nullopt;
  return Failure{ErrorKind::exhausted,
                 fmt::format("cannot accept connections: {}", os_error(EMFILE)), std::nullopt};
}

bool has_descriptors_left() {
  const auto of_process = spare_of_process().lock();
  const auto there = of_process->spare.lock();
  return there == nullptr || there->restore();
}

}  // namespace ccoll::net
