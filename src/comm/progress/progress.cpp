// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/progress.hpp"

#include <algorithm>
#include <utility>

#include "comm/progress/background.hpp"
#include "comm/progress/group_wait.hpp"
#include "comm/progress/owner.hpp"
#include "comm/progress/spin_policy.hpp"

namespace ccoll {

Progress::Progress(Operations& operations, std::shared_ptr<Waiter> waiter, Now now)
    : operations_(operations), waiter_(std::move(waiter)), now_(now) {}

Progress::~Progress() = default;

void Progress::start(asio::io_context& context, const std::shared_ptr<Progress>& self,
                     Cores cores) {
  cores_ = cores;
  this_ = self;
  background_ = Background::make(context, self, waiter_, now_);
}

void Progress::stop() {
  if (background_) background_->stop();
}

void Progress::schedule() { background_->schedule(); }

Owned Progress::wait_to_own() {
  value_or_throw(may_wait());
  return turns_.wait_to_own([this] { waiter_->ring(); });
}

Status Progress::may_wait() const {
  CCOLL_TRY(operations_.may_wait());
  if (!is_held_by_group_wait(*this)) return {};
  return fail(ErrorKind::invalid_argument,
              "the function of a reduction uses a communicator of the group of calls that is "
              "waited for");
}

void Progress::settle(Owned owned) {
  is_settled_ = false;
  if (is_forked() || !operations_.busy(owned)) return;
  const auto until = background_->sleeps_until();
  // If its announcement was taken back, peers do not wake it.
  is_settled_ = background_->sleeps() && waiter_->announced() &&
                !operations_.advance(owned, Attention::everyone) &&
                operations_.supervise(owned, now_()) >= until && operations_.busy(owned);
}

void Progress::leave_to_background(Owned owned) {
  // Operations of a forked child go on in the parent; threads that do not exist here may hold
  // asio's locks.
  if (is_forked()) return disown(owned);
  const bool is_settled = is_settled_;
  // Another thread may end the communicator once the flag is free.
  const auto background = background_;
  // seq_cst; partner: Background::turn, which marks itself awake before it tries to own. It gets
  // the flag, or is seen to be awake here. If it has gone to sleep since, it had the flag.
  disown(owned);
  if (!is_settled || !background->sleeps()) background->schedule();
}

void Progress::disown_beside_streams(Owned owned) {
  // Another thread may end the communicator once the flag is free. Empty where it is ending now.
  const auto held = this_.lock();
  disown(owned);
  // Nobody else would begin it: the stream's thread saw that a turn is due, or the flag held.
  if (held && operations_.has_reached()) schedule();
}

bool Progress::wait(Owned owned, const Work::State& work, Clock::time_point limit) {
  constexpr unsigned kRoundsBetweenLooks = 64;
  SpinPolicy patience(cores_.are_oversubscribed);
  Remaining remaining(work);
  std::optional<std::uint64_t> rested;
  unsigned rounds = 0;
  while (!remaining.none()) {
    if (operations_.advance(owned, Attention::awaited)) {
      patience.reset();
      if (++rounds % kRoundsBetweenLooks != 0) continue;
      // Time limits hold even while something moves.
      const auto now = now_();
      if (now >= limit) break;
      operations_.supervise(owned, now);
      if (!turns_.must_pass(rested) || remaining.none()) continue;
    }
    if (turns_.must_pass(rested)) {
      if (limit != Clock::time_point::max() && now_() >= limit) break;
      rested = turns_.rest(owned, limit);
      continue;
    }
    if (patience.keep_polling()) continue;
    const auto now = now_();
    if (now >= limit) break;
    const auto next = std::min({operations_.supervise(owned, now), limit, turns_.rest_until()});
    if (remaining.none()) break;
    waiter_->prepare();
    if (!operations_.advance(owned, Attention::everyone) && !turns_.must_pass(rested))
      sleep(owned, work, now, next);
    awake(owned);
    turns_.end_rests(now_());
  }
  const bool is_over = remaining.none();
  settle(owned);
  return is_over;
}

Result<std::shared_ptr<Work::State>> Progress::finish(Owned owned,
                                                      Result<std::shared_ptr<Work::State>> begun) {
  if (begun) wait(owned, **begun, Clock::time_point::max());
  return begun;
}

void Progress::sleep(Owned owned, const Work::State& work, Clock::time_point now,
                     Clock::time_point until) {
  auto awaited = operations_.awaited(owned, work);
  waiter_->sleep(until - now);
  operations_.slept(owned, std::move(awaited), now_() - now);
}

void Progress::poll() {
  const auto owned = background_->is_due() ? std::nullopt : try_own();
  if (!owned) return;
  const Owner owner(*this, *owned);
  operations_.advance(owner, Attention::awaited);
  operations_.supervise(owner, now_());
  settle(owner);
}

}  // namespace ccoll
