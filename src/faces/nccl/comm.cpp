// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/comm.hpp"

#include <thread>

#include "faces/nccl/settings/environment.hpp"

namespace ccoll::nccl {
namespace {

/// How long other threads' calls that an abort has ended may take to return.
constexpr std::chrono::milliseconds kPatience{1500};

/// The environment has precedence over the config.
bool says_blocking(const Config& config) {
  if (settings().blocking) return *settings().blocking == 1;
  return config.blocking != 0;
}

}  // namespace

Comm::Comm(Place place, Config config)
    : place_(place),
      config_(std::move(config)),
      is_blocking_(says_blocking(config_)),
      state_(State::initialising) {}

Comm::Comm(Communicator communicator, int device, Config config)
    : place_{communicator.rank(), communicator.size(), device},
      config_(std::move(config)),
      is_blocking_(says_blocking(config_)),
      communicator_(std::move(communicator)),
      state_(State::ready) {}

std::string Comm::text() const {
  if (config_.comm_name.empty())
    return fmt::format("rank {} of a communicator of {} ranks", rank(), size());
  return fmt::format("rank {} of comm '{}' ({} ranks)", rank(), config_.comm_name, size());
}

ncclResult_t Comm::async_error() {
  if (const auto failure = failure_.load(std::memory_order_acquire); failure != ncclSuccess)
    return failure;
  if (has_job() || state() == State::initialising) return ncclInProgress;
  look_for_failure();
  return failure_.load(std::memory_order_acquire);
}

void Comm::check_known() {
  if (state() == State::ended) refuse(ncclInvalidArgument, "comm was destroyed or aborted before");
  if (!has_job()) {
    if (state() != State::initialising) return;
    check_failure();
  }
  const Refusal refusal{ncclInvalidArgument,
                        fmt::format("{} is still busy with an earlier call: call "
                                    "ncclCommGetAsyncError until it no longer gives ncclInProgress",
                                    text())};
  if (!is_blocking_) fail(refusal);
  throw refusal;
}

void Comm::check_failure() const {
  if (state() == State::revoked) return;
  const auto failure = failure_.load(std::memory_order_acquire);
  if (failure == ncclSuccess) return;
  throw Refusal{failure, *failure_text_.lock()};
}

void Comm::check_open() {
  check_known();
  check_failure();
  if (state() == State::finalised)
    refuse(ncclInvalidUsage, "{} was finalised: it can only be destroyed or aborted", text());
  if (state() == State::revoked)
    refuse(ncclInvalidUsage, "{} was revoked: split or shrink it to go on, or destroy or abort it",
           text());
}

void Comm::check_usable() {
  check_open();
  if (is_suspended())
    refuse(ncclInvalidUsage, "{} is suspended: call ncclCommResume first", text());
}

void Comm::check_parent(bool may_be_broken) {
  if (state() == State::revoked) return;
  if (may_be_broken && state() == State::ready && !has_job()) return;
  check_usable();
}

bool Comm::came_up(Communicator&& made) {
  communicator_.emplace(std::move(made));
  auto expected = State::initialising;
  if (state_.compare_exchange_strong(expected, State::ready, std::memory_order_acq_rel))
    return true;
  made = std::move(*communicator_);
  communicator_.reset();
  return false;
}

void Comm::fail(const Refusal& refusal) {
  const auto failure_text = failure_text_.lock();
  if (failure_.load(std::memory_order_relaxed) != ncclSuccess) return;
  *failure_text = refusal.text;
  failure_.store(refusal.code, std::memory_order_release);
}

Refusal Comm::failed_call(std::string_view call) {
  auto refusal = refusal_of_exception();
  refusal.text = fmt::format("ccoll: {} on {}: {}", call, text(), refusal.text);
  if (communicator_->error_kind()) fail(refusal);
  return refusal;
}

void Comm::look_for_failure() {
  const std::unique_lock lock(ending_, std::try_to_lock);
  if (!lock || state() != State::ready) return;
  const auto kind = communicator_->error_kind();
  if (!kind) return;
  const auto why = communicator_->error();
  fail({code_of(*kind, why), fmt::format("ccoll: {}: {}", text(), why)});
}

void Comm::finalise() {
  // Not async_error, which would report this very job as in progress.
  order_.wait([&] {
    look_for_failure();
    return failure_.load() != ncclSuccess || state() == State::ended;
  });
  check_failure();
  auto expected = State::ready;
  state_.compare_exchange_strong(expected, State::finalised, std::memory_order_acq_rel);
}

void Comm::revoke() {
  check_known();
  auto expected = State::ready;
  if (!state_.compare_exchange_strong(expected, State::revoked, std::memory_order_acq_rel))
    refuse(ncclInvalidArgument, "{} {}", text(),
           expected == State::revoked ? "was revoked before"
                                      : "was finalised: there is nothing to revoke");
  communicator_->abort(fmt::format("ncclCommRevoke on rank {}", rank()));
}

void Comm::destroy() {
  const auto before = state_.exchange(State::ended, std::memory_order_acq_rel);
  ending_soon_.request_stop();
  if (before == State::initialising || before == State::ended) return;
  if (before == State::ready)
    order_.wait([&] { return failure_.load() != ncclSuccess || communicator_->error_kind(); });
  try {
    const std::lock_guard lock(ending_);
    communicator_->close();
  } catch (const Error& error) {
    // Once this rank is done, it does not matter that another one ended without leaving.
    const bool is_news = error.kind() == ErrorKind::mismatch && before == State::ready &&
                         failure_.load() == ncclSuccess;
    if (is_news) throw;
  }
}

void Comm::abort() {
  const auto before = state_.exchange(State::ended, std::memory_order_acq_rel);
  ending_soon_.request_stop();
  if (before == State::initialising || before == State::ended) return;
  const bool is_busy = under_way_.load() > 0 || has_job() || order_.is_busy();
  const auto reason = fmt::format("ncclCommAbort on rank {}", rank());
  if (is_busy && failure_.load() == ncclSuccess) communicator_->abort(reason);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (under_way_.load() > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (under_way_.load() > 0) return;  // the last of those calls lets it go
  try {
    // If nothing of this rank is under way, the others need not hear of an end that programs also
    // make in order.
    const std::lock_guard lock(ending_);
    communicator_->leave(reason);
  } catch (const Error&) {
    // The communicator is gone for its caller, so nobody can hear of it.
  }
}

int Comm::next_message(int peer, bool sends) {
  if (tags_.empty()) tags_.resize(static_cast<std::size_t>(size()));
  auto& [sent, received] = tags_[static_cast<std::size_t>(peer)];
  auto& number = sends ? sent : received;
  return static_cast<int>(number++ & 0x07ffffffU);
}

}  // namespace ccoll::nccl
