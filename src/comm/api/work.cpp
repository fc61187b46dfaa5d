// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "comm/api/call_group.hpp"
#include "comm/api/implementation.hpp"
#include "comm/progress/operation.hpp"
#include "core/deadline.hpp"

namespace ccoll {

void Work::wait(std::optional<std::chrono::milliseconds> limit) {
  if (!state_) return;
  const auto give_up = [&] {
    throw Error(ErrorKind::timed_out,
                fmt::format("the operation is not over after {} ms; it goes on", limit->count()));
  };
  if (limit && limit->count() <= 0 && !test()) give_up();
  const auto deadline = limit ? deadline_after(*limit) : Clock::time_point::max();
  if (const auto communicator = state_->communicator.lock(); communicator && !state_->done()) {
    call_group::go_on(state_.get(), deadline);
    Communicator::Implementation::Owner owner(*communicator);
    if (!communicator->wait_as_owner(*state_, deadline)) give_up();
  }
  if (const auto* failure = state_->failure()) raise(*failure);
}

bool Work::test() {
  if (!state_ || state_->done()) return true;
  call_group::go_on(state_.get(), Clock::time_point::min());
  if (const auto communicator = state_->communicator.lock()) communicator->poll();
  return state_->done();
}

Received Work::received(std::size_t receive) const {
  if (!state_ || !state_->done())
    raise({ErrorKind::invalid_argument, "received: the operation is not over; wait for it first",
           std::nullopt});
  std::size_t receives = 0;
  for (const auto& operation : state_->operations) {
    if (!operation->received || receives++ != receive) continue;
    if (operation->failure) raise(*operation->failure);
    return *operation->received;
  }
  raise({ErrorKind::invalid_argument,
         fmt::format("received: the operation has {} receives, there is no number {}", receives,
                     receive),
         std::nullopt});
}

std::string Work::error() const {
  const auto* failure = state_ ? state_->failure() : nullptr;
  return failure ? failure->message : "";
}

}  // namespace ccoll
