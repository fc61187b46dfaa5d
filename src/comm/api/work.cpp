// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "comm/call/call_group.hpp"
#include "comm/progress/callback_thread.hpp"
#include "comm/progress/endings.hpp"
#include "comm/progress/operation.hpp"
#include "comm/progress/owner.hpp"
#include "comm/progress/progress.hpp"
#include "core/deadline.hpp"
#include "system/log.hpp"

namespace ccoll {
namespace {

/// One call of a function that was given to on_done.
class OnDoneCallback final : public Callback {
 public:
  OnDoneCallback(std::shared_ptr<Work::State> state, std::function<void(const Error*)> tell)
      : state_(std::move(state)), tell_(std::move(tell)) {}

  void run() noexcept override {
    try {
      const auto* failure = state_ ? state_->failure() : nullptr;
      if (failure == nullptr) return tell_(nullptr);
      const Error error = error_of(*failure);
      tell_(&error);
    } catch (...) {
      log().error("a function given to on_done threw: {}",
                  failure_of(std::current_exception()).message);
    }
  }

 private:
  const std::shared_ptr<Work::State> state_;
  const std::function<void(const Error*)> tell_;
};

}  // namespace

void Work::wait(std::optional<std::chrono::milliseconds> limit) {
  if (!state_) return;
  const auto give_up = [&] {
    throw Error(ErrorKind::timed_out,
                fmt::format("the operation is not over after {} ms; it goes on", limit->count()));
  };
  if (limit && limit->count() <= 0 && !test()) give_up();
  if (const auto progress = state_->progress.lock(); progress && !state_->done()) {
    const auto deadline =
        limit ? deadline_after(*limit, progress->now()) : Clock::time_point::max();
    if (call_group::has_put_off())
      call_group::go_on(state_.get(), limit ? deadline_after(*limit) : Clock::time_point::max());
    const Owner owned(*progress);
    if (!progress->wait(owned, *state_, deadline)) give_up();
  }
  if (const auto* failure = state_->failure()) raise(*failure);
}

bool Work::test() {
  if (!state_ || state_->done()) return true;
  call_group::go_on(state_.get(), Clock::time_point::min());
  if (const auto progress = state_->progress.lock()) progress->poll();
  return state_->done();
}

void Work::on_done(std::function<void(const Error*)> tell) {
  if (!tell) raise({ErrorKind::invalid_argument, "on_done: no function is given", std::nullopt});
  if (auto started = caught([] { return CallbackThreads::start(), Status(); }); !started)
    raise(started.error());
  auto callback = std::make_unique<OnDoneCallback>(state_, std::move(tell));
  if (!state_ || state_->operations.empty()) return CallbackThreads::run(std::move(callback));
  const auto ending = std::make_shared<Ending>(std::move(callback), state_->operations.size());
  for (const auto& operation : state_->operations) operation->endings.add(ending);
}

Received Work::received(std::size_t receive) const {
  if (!state_)
    raise({ErrorKind::invalid_argument,
           "received: this Work belongs to no operation, so there is no message", std::nullopt});
  if (!state_->done())
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
