// SPDX-License-Identifier: Apache-2.0
#include "comm/streams/stream_calls.hpp"

#include <algorithm>
#include <utility>

#include "ccoll/memory.hpp"
#include "comm/collectives/collective_operation.hpp"
#include "core/deadline.hpp"

namespace ccoll {
namespace {

/// A stream whose calls have failed goes on at once. If it takes longer than this, the caller's own
/// work stands before them, or a device is stuck.
constexpr std::chrono::seconds kToPass{5};

/// After this long, and this often, CUDA is asked whether calls stand for good.
constexpr std::chrono::milliseconds kBetweenLooks{1000};

/// How often a device's calls are looked at if nothing reports them.
constexpr std::chrono::microseconds kBetweenPolls{250};

}  // namespace

// One call

void StreamCall::reached() noexcept {
  const auto all = all_.lock();
  if (!all) return stream_op_->forsake();
  if (begin_)
    all->reached(shared_from_this());
  else
    all->ring();
}

void StreamCall::passed() noexcept {
  end_part();
  ring();
}

void StreamCall::ring() const noexcept {
  if (const auto all = all_.lock()) all->ring();
}

bool StreamCall::look_whether_passed(Owned /*owned*/, const Self& self,
                                     std::optional<Failure>& trouble) {
  if (!is_looked_at() || !stream_op_->passed()) return false;
  has_passed_ = true;
  if (auto outcome = stream_op_->outcome(); !outcome) {
    for (const auto& each : shown_)
      if (!each->failure) each->failure = self.for_caller(outcome.error());
    trouble = std::move(outcome.error());
  }
  end_part();
  return true;
}

const Operations& StreamCall::left_behind() const {
  static const Operations kNone;
  const bool is_made = stream_op_->is_made_by_device() && (shown_.empty() || stream_op_->passed());
  return is_made && stage_ == Stage::under_way ? operations_ : kNone;
}

std::optional<LeftOnDevice> StreamCall::left_on_device() const {
  const bool is_left = stage_ == Stage::under_way || (number_ && is_looked_at());
  if (!is_left || !may_be_on_device()) return std::nullopt;
  // A captured call's stream is not looked at: it reports when it has reached the call.
  const bool has_come = !stream_op_->is_looked_at() || stream_op_->reached();
  LeftOnDevice left{operations_.empty() ? nullptr : operations_.front().get(), number_.value_or(0),
                    has_come ? "its stream has reached it" : "its stream has not reached it"};
  if (const auto at = stream_op_->standing(); !at.empty()) left.standing += "; " + at;
  return left;
}

void StreamCall::begin(Owned owned) {
  if (stage_ == Stage::leaving && !shown_.empty()) return;  // it has failed meanwhile
  auto begun = caught([&] { return begin_(owned); });
  stands_before_.reset();
  if (begun) return began(owned, std::move(*begun));
  // The failure to begin may have broken the communicator, which ended this call with all others.
  if (stage_ == Stage::leaving && !shown_.empty()) return;
  // Nobody waits for a graph's call: the next call reports it.
  for (const auto& each : shown_) each->failure = begun.error();
  leave(owned);
}

void StreamCall::began(Owned /*owned*/, Operations operations) {
  operations_ = std::move(operations);
  stage_ = Stage::under_way;
}

bool StreamCall::settle(Owned owned) {
  if (stage_ != Stage::under_way) return false;
  const auto done = [](const auto& each) { return each->done.load(std::memory_order_acquire); };
  if (!std::ranges::all_of(operations_, done)) return false;
  for (std::size_t i = 0; i < shown_.size(); i++) {
    if (!shown_[i]->failure) shown_[i]->failure = operations_[i]->failure;
    shown_[i]->received = operations_[i]->received;
  }
  leave(owned);
  return true;
}

void StreamCall::leave(Owned /*owned*/) {
  if (stream_op_->is_made_by_device() && !operations_.empty()) {
    const auto& beside = static_cast<const CollectiveOperation&>(*operations_.front());
    if (beside.is_numbered) number_ = beside.run.sequence;
  }
  operations_.clear();
  stands_before_.reset();
  stage_ = Stage::leaving;
  const auto failed = [](const auto& each) { return each->failure.has_value(); };
  if (std::ranges::any_of(shown_, failed)) gives_up_ = true;
  end_part();
  // Do this last: the stream may pass, and the call be over, at once.
  stream_op_->release();
}

void StreamCall::end_with(Owned owned, const Failure& failure) {
  if (stage_ != Stage::leaving && !settle(owned)) {
    for (const auto& each : shown_) each->failure = failure;
    leave(owned);
  } else if (is_looked_at() && may_be_on_device()) {
    give_up(owned, failure);
  }
}

void StreamCall::abandon(Owned owned, const Failure& failure) {
  end_with(owned, failure);
  if (!begin_to_end()) return;
  for (const auto& each : shown_)
    if (!each->failure) each->failure = failure;
  end_unpassed();
}

void StreamCall::end_copy(Owned /*owned*/, const Failure& failure) {
  if (is_done()) return;
  for (const auto& each : shown_) each->failure = failure;
  end_shown();
}

bool StreamCall::is_done() const {
  return std::ranges::all_of(
      shown_, [](const auto& each) { return each->done.load(std::memory_order_acquire); });
}

bool StreamCall::is_over(Owned /*owned*/) const {
  // A captured call shows nothing: its graph repeats it.
  return stage_ == Stage::leaving && is_done();
}

Status StreamCall::look_at_time(Owned owned, Clock::time_point now) {
  const bool is_devices = stage_ == Stage::leaving && is_looked_at() && may_be_on_device();
  if (!is_devices || gives_up_ || !stream_op_->reached()) return {};
  if (!device_deadline_) device_deadline_ = deadline_after(device_limit_, now);
  if (now < *device_deadline_) return {};
  Failure late{
      ErrorKind::timed_out,
      "the streams of all ranks have reached a call, but the device has not finished it in time",
      std::nullopt};
  const auto standing = stream_op_->standing();
  late.message += standing.empty() ? "; the device shows no step of it" : ": " + standing;
  give_up(owned, late);
  return tl::unexpected(late);
}

void StreamCall::give_up(Owned /*owned*/, const Failure& failure) {
  for (const auto& each : shown_)
    if (!each->failure) each->failure = failure;
  gives_up_ = true;
}

Status StreamCall::look(Owned owned, Clock::time_point now) {
  const auto in_time = look_at_time(owned, now);
  if (gives_up_ && !give_up_at_) give_up_at_ = now + kToPass;
  CCOLL_TRY(in_time);
  auto trouble = stream_op_->trouble();
  const bool is_late = give_up_at_ && now >= *give_up_at_;
  if (stage_ != Stage::leaving || (trouble && !is_late) || !begin_to_end()) return trouble;
  const Failure late{ErrorKind::timed_out,
                     "this part succeeded, but another part of its batch failed", std::nullopt};
  for (const auto& each : shown_)
    if (!each->failure) each->failure = trouble ? late : trouble.error();
  end_unpassed();
  return trouble;
}

void StreamCall::end_unpassed() {
  for (const auto& each : shown_)
    each->failure->message +=
        "; the stream has not passed the call, whose buffers may still be read and written";
  end_shown();
}

void StreamCall::end_part() {
  if (parts_left_.fetch_sub(1) == 1 && begin_to_end()) end_shown();
}

void StreamCall::end_shown() {
  for (const auto& each : shown_) each->end();
}

// All of them

StreamCalls::~StreamCalls() {
  for (auto call = take_reached(); call != nullptr; call = std::move(call->next_reached_))
    call->forsake();
}

Result<device::Staging*> StreamCalls::staging(int device) {
  return shared_staging(device).map([](const auto& staging) { return staging.get(); });
}

Result<std::shared_ptr<device::Staging>> StreamCalls::shared_staging(int device) {
  return staging_.with([&](auto& staging) -> Result<std::shared_ptr<device::Staging>> {
    if (staging) return staging;
    auto made = device::make_staging({.device = device,
                                      .ranks = self_.size(),
                                      .bytes = self_.options().device.staging_bytes,
                                      .allocate = [](auto size) { return allocate(size); }});
    if (!made) return tl::unexpected(std::move(made.error()));
    staging = std::move(*made);
    return staging;
  });
}

std::optional<int> StreamCalls::device() const {
  return staging_.with([](const auto& staging) {
    return staging ? std::optional(staging->device()) : std::nullopt;
  });
}

std::uint64_t StreamCalls::held_bytes() const {
  return staging_.with(
      [](const auto& staging) { return staging ? staging->held_bytes() : std::uint64_t{0}; });
}

void StreamCalls::reached(std::shared_ptr<StreamCall> call) noexcept {
  const bool is_taken = reached_.with([&](Reached& reached) {
    if (reached.are_abandoned) return false;
    auto* const last = call.get();
    (reached.last != nullptr ? reached.last->next_reached_ : reached.first) = std::move(call);
    reached.last = last;
    has_reached_.store(true);
    return true;
  });
  if (!is_taken) return call->forsake();
  ring();
  progress_.schedule();
}

void StreamCalls::ring() const noexcept { progress_.waiter().ring(); }

std::shared_ptr<StreamCall> StreamCalls::take_reached() {
  return reached_.with([&](Reached& reached) {
    has_reached_.store(false);
    reached.last = nullptr;
    return std::move(reached.first);
  });
}

void StreamCalls::forked() {
  new (&submission_) std::mutex;
  new (device_submission_.get()) TimedMutex;
  reached_.forget_lock();
  staging_.forget_lock();
  has_reached_.store(false);
}

bool StreamCalls::advance(Owned owned, std::optional<Failure>& trouble) {
  bool moved = false;
  auto reached = has_reached_.load() ? take_reached() : nullptr;
  while (reached != nullptr) {
    const auto call = std::move(reached);
    reached = std::move(call->next_reached_);
    call->begin(owned);
    if (std::ranges::find(calls_, call) == calls_.end()) calls_.push_back(call);
    moved = true;
  }
  for (const auto& call : calls_) {
    moved |= call->settle(owned);
    moved |= call->look_whether_passed(owned, self_, trouble);
  }
  moved |= std::erase_if(calls_, [&](const auto& call) { return call->is_over(owned); }) > 0;
  if (calls_.empty()) look_at_.reset();
  return moved;
}

void StreamCalls::end_with(Owned owned, const Failure& failure) {
  for (const auto& call : calls_) call->end_with(owned, failure);
  if (look_at_) look_at_ = Clock::time_point::min();
}

Operations StreamCalls::left_behind(Owned /*owned*/) const {
  Operations all;
  for (const auto& call : calls_) std::ranges::copy(call->left_behind(), std::back_inserter(all));
  return all;
}

std::vector<LeftOnDevice> StreamCalls::left_on_device(Owned /*owned*/) const {
  std::vector<LeftOnDevice> all;
  for (const auto& call : calls_)
    if (auto left = call->left_on_device()) all.push_back(std::move(*left));
  return all;
}

void StreamCalls::abort_device(Owned /*owned*/, const Failure& failure, bool only_own) {
  if (!way_) return;
  const auto may_be_there = [](const auto& call) { return call->may_be_on_device(); };
  const bool is_to_end =
      !only_own || way_->has_graph_under_way() || std::ranges::any_of(calls_, may_be_there);
  if (is_to_end) way_->abort(failure);
}

void StreamCalls::abandon(Owned owned, const Failure& failure) {
  reached_.with([](Reached& reached) { reached.are_abandoned = true; });
  for (auto call = take_reached(); call != nullptr; call = std::move(call->next_reached_))
    call->forsake();
  for (const auto& call : calls_) call->abandon(owned, failure);
  calls_.clear();
}

void StreamCalls::end_copy(Owned owned, const Failure& failure) {
  for (const auto& call : calls_) call->end_copy(owned, failure);
  // Their memory is the parent's.
  if (!calls_.empty()) (void)new auto(std::move(calls_));
  calls_.clear();
}

Status StreamCalls::supervise(Owned owned, Clock::time_point now, Clock::time_point& next) {
  if (calls_.empty()) return {};
  if (!look_at_) look_at_ = now + kBetweenLooks;
  Status trouble;
  if (now >= *look_at_) {
    look_at_ = now + kBetweenLooks;
    for (const auto& call : calls_)
      if (auto looked = call->look(owned, now); !looked && trouble) trouble = std::move(looked);
  }
  next = std::min(next, *look_at_);
  const auto is_looked_at = [](const auto& call) { return call->is_looked_at(); };
  if (std::ranges::any_of(calls_, is_looked_at)) next = std::min(next, now + kBetweenPolls);
  return trouble;
}

}  // namespace ccoll
