// SPDX-License-Identifier: Apache-2.0
#include "comm/stream_calls.hpp"

#include <algorithm>
#include <utility>

#include "comm/background.hpp"
#include "comm/implementation.hpp"

namespace ccoll {
namespace {

/// A stream whose calls have failed goes on at once; what it takes longer is the caller's own work
/// that stands before them, or a device that is stuck.
constexpr std::chrono::seconds kToPass{5};

/// Calls that stand for so long have CUDA asked whether they stand for good; and so often.
constexpr std::chrono::milliseconds kBetweenLooks{1000};

/// What a device makes, and nobody tells of, is looked at so often while there is any.
constexpr std::chrono::microseconds kBetweenPolls{250};

/// What the device's memory in a buffer is; the rest of it is the host's.
std::vector<device::MemoryRange> device_ranges_of(const BufferView& view, std::uint64_t elems,
                                                  std::size_t width) {
  std::vector<device::MemoryRange> ranges;
  const auto add = [&](std::byte* data, std::uint64_t count) {
    if (count > 0 && device::device_of(data)) ranges.push_back({data, count * width});
  };
  if (view.segments.empty()) add(view.data, elems);
  for (std::size_t i = 0; i < view.segments.size(); i++) {
    const auto end = i + 1 < view.segments.size() ? view.segments[i + 1].first : elems;
    add(view.segments[i].data, end - view.segments[i].first);
  }
  return ranges;
}

/// The view with the host's memory in place of the device's.
void move_to_host(BufferView& view, std::uint64_t elems, const device::Passage& passage) {
  if (elems == 0) return;
  const auto move = [&](std::byte*& data) {
    if (device::device_of(data)) data = passage.on_host(data);
  };
  for (auto& segment : view.segments) move(segment.data);
  move(view.data);
}

}  // namespace

// One call

void StreamCall::reached() noexcept {
  const auto communicator = communicator_.lock();
  if (!communicator) return passage_->forsake();
  if (begin_)
    communicator->stream_reached(shared_from_this());
  else
    communicator->waiter().ring();
}

void StreamCall::passed() noexcept {
  end_part();
  if (const auto communicator = communicator_.lock()) communicator->waiter().ring();
}

bool StreamCall::look_whether_passed_as_owner(std::optional<Failure>& trouble) {
  if (!is_looked_at() || !passage_->passed()) return false;
  has_passed_ = true;
  if (auto outcome = passage_->outcome(); !outcome) {
    for (const auto& each : shown_)
      if (!each->failure) each->failure = outcome.error();
    trouble = std::move(outcome.error());
  }
  end_part();
  return true;
}

const Operations& StreamCall::left_behind() const {
  static const Operations kNone;
  const bool is_made = passage_->is_made_by_device() && (shown_.empty() || passage_->passed());
  return is_made && stage_ == Stage::under_way ? operations_ : kNone;
}

void StreamCall::begin_as_owner(Communicator::Implementation& communicator) {
  if (stage_ == Stage::leaving && !shown_.empty()) return;  // it has failed meanwhile
  auto begun = caught([&] { return begin_(communicator); });
  stands_before_.reset();
  if (begun) return began_as_owner(std::move(*begun));
  // What kept it from beginning may have broken the communicator, and ended it with all others.
  if (stage_ == Stage::leaving && !shown_.empty()) return;
  // Of a graph nobody is told: the next call is.
  for (const auto& each : shown_) each->failure = begun.error();
  leave_as_owner();
}

void StreamCall::began_as_owner(Operations operations) {
  operations_ = std::move(operations);
  stage_ = Stage::under_way;
}

bool StreamCall::settle_as_owner() {
  if (stage_ != Stage::under_way) return false;
  const auto done = [](const auto& each) { return each->done.load(std::memory_order_acquire); };
  if (!std::ranges::all_of(operations_, done)) return false;
  for (std::size_t i = 0; i < shown_.size(); i++) {
    if (!shown_[i]->failure) shown_[i]->failure = operations_[i]->failure;
    shown_[i]->received = operations_[i]->received;
  }
  if (is_looked_at()) device_deadline_ = operations_.front()->deadline;
  leave_as_owner();
  return true;
}

void StreamCall::leave_as_owner() {
  operations_.clear();
  stands_before_.reset();
  stage_ = Stage::leaving;
  const auto failed = [](const auto& each) { return each->failure.has_value(); };
  if (std::ranges::any_of(shown_, failed)) give_up_at_ = Clock::now() + kToPass;
  end_part();
  // The last: the stream may pass, and the call be over, at once.
  passage_->release();
}

void StreamCall::fail_as_owner(const Failure& failure) {
  if (stage_ == Stage::leaving || settle_as_owner()) return;
  for (const auto& each : shown_) each->failure = failure;
  leave_as_owner();
}

void StreamCall::abandon_as_owner(const Failure& failure) {
  fail_as_owner(failure);
  if (!begin_to_end()) return;
  for (const auto& each : shown_)
    if (!each->failure) each->failure = failure;
  end_unpassed();
}

void StreamCall::end_copy_as_owner(const Failure& failure) {
  if (is_done()) return;
  for (const auto& each : shown_) each->failure = failure;
  end_shown();
}

bool StreamCall::is_done() const {
  return std::ranges::all_of(
      shown_, [](const auto& each) { return each->done.load(std::memory_order_acquire); });
}

bool StreamCall::is_over_as_owner() const {
  // Of a captured one nothing is shown: it comes again by itself.
  return stage_ == Stage::leaving && is_done();
}

Status StreamCall::look_at_time_as_owner(Clock::time_point now) const {
  if (!device_deadline_ || now < *device_deadline_ || has_passed_ || give_up_at_) return {};
  return fail(ErrorKind::timed_out,
              "a call whose ranks have all come to it is not over in time: the device has not made "
              "it");
}

Status StreamCall::look_as_owner(Clock::time_point now) {
  auto trouble = passage_->trouble();
  if (trouble) trouble = look_at_time_as_owner(now);
  const bool is_late = give_up_at_ && now >= *give_up_at_;
  if (stage_ != Stage::leaving || (trouble && !is_late) || !begin_to_end()) return trouble;
  const Failure late{ErrorKind::timed_out,
                     "its part ended well, but another's of its batch did not", std::nullopt};
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
  for (const auto& each : shown_) each->done.store(true, std::memory_order_release);
}

// All of them

StreamCalls::~StreamCalls() {
  for (auto call = take_reached(); call != nullptr; call = std::move(call->next_reached_))
    call->forsake();
}

Result<device::Staging*> StreamCalls::staging(int device, std::size_t bytes) {
  return shared_staging(device, bytes).map([](const auto& staging) { return staging.get(); });
}

Result<std::shared_ptr<device::Staging>> StreamCalls::shared_staging(int device,
                                                                     std::size_t bytes) {
  const std::lock_guard lock(making_);
  if (staging_) return staging_;
  auto made = device::make_staging(
      {.device = device, .bytes = bytes, .allocate = [](auto size) { return allocate(size); }});
  if (!made) return tl::unexpected(std::move(made.error()));
  staging_ = std::move(*made);
  return staging_;
}

std::optional<int> StreamCalls::device() const {
  const std::lock_guard lock(making_);
  return staging_ ? std::optional(staging_->device()) : std::nullopt;
}

std::uint64_t StreamCalls::held_bytes() const {
  const std::lock_guard lock(making_);
  return staging_ ? staging_->held_bytes() : 0;
}

void StreamCalls::reached(std::shared_ptr<StreamCall> call) noexcept {
  const std::lock_guard lock(reached_mutex_);
  if (abandoned_) return call->forsake();
  auto* const last = call.get();
  (last_reached_ != nullptr ? last_reached_->next_reached_ : first_reached_) = std::move(call);
  last_reached_ = last;
  has_reached_.store(true);
}

std::shared_ptr<StreamCall> StreamCalls::take_reached() {
  const std::lock_guard lock(reached_mutex_);
  has_reached_.store(false);
  last_reached_ = nullptr;
  return std::move(first_reached_);
}

void StreamCalls::forked() {
  new (&reached_mutex_) std::mutex;
  new (&making_) std::mutex;
  has_reached_.store(false);
}

bool StreamCalls::advance_as_owner(Communicator::Implementation& communicator) {
  bool moved = false;
  auto reached = has_reached_.load() ? take_reached() : nullptr;
  while (reached != nullptr) {
    const auto call = std::move(reached);
    reached = std::move(call->next_reached_);
    call->begin_as_owner(communicator);
    if (std::ranges::find(calls_, call) == calls_.end()) calls_.push_back(call);
    moved = true;
  }
  std::optional<Failure> trouble;
  for (const auto& call : calls_) {
    moved |= call->settle_as_owner();
    moved |= call->look_whether_passed_as_owner(trouble);
  }
  if (trouble) communicator.device_failed_as_owner(*trouble);
  moved |= std::erase_if(calls_, [](const auto& call) { return call->is_over_as_owner(); }) > 0;
  if (calls_.empty()) look_at_.reset();
  return moved;
}

void StreamCalls::fail_as_owner(const Failure& failure) {
  for (const auto& call : calls_) call->fail_as_owner(failure);
  if (look_at_) look_at_ = Clock::now();
}

Operations StreamCalls::left_behind_as_owner() const {
  Operations all;
  for (const auto& call : calls_) std::ranges::copy(call->left_behind(), std::back_inserter(all));
  return all;
}

void StreamCalls::abort_device_as_owner(const Failure& failure, bool only_own) {
  if (!way_) return;
  const auto may_be_there = [](const auto& call) { return call->may_be_on_device(); };
  if (!only_own || std::ranges::any_of(calls_, may_be_there)) way_->abort(failure);
}

void StreamCalls::abandon_as_owner(const Failure& failure) {
  {
    const std::lock_guard lock(reached_mutex_);
    abandoned_ = true;
  }
  for (auto call = take_reached(); call != nullptr; call = std::move(call->next_reached_))
    call->forsake();
  for (const auto& call : calls_) call->abandon_as_owner(failure);
  calls_.clear();
}

void StreamCalls::end_copy_as_owner(const Failure& failure) {
  for (const auto& call : calls_) call->end_copy_as_owner(failure);
  (void)new auto(std::move(calls_));
  calls_.clear();
}

Status StreamCalls::supervise_as_owner(Clock::time_point now, Clock::time_point& next) {
  if (calls_.empty()) return {};
  if (!look_at_) look_at_ = now + kBetweenLooks;
  Status trouble;
  if (now >= *look_at_) {
    look_at_ = now + kBetweenLooks;
    for (const auto& call : calls_)
      if (auto looked = call->look_as_owner(now); !looked && trouble) trouble = std::move(looked);
  }
  next = std::min(next, *look_at_);
  const auto is_looked_at = [](const auto& call) { return call->is_looked_at(); };
  if (std::ranges::any_of(calls_, is_looked_at)) next = std::min(next, now + kBetweenPolls);
  return trouble;
}

// The communicator's part

bool Communicator::Implementation::is_for_streams(const void* input, const void* output) const {
  if (!knows_devices_ || is_forked()) return false;
  return has_device_way() || device::device_of(input) || device::device_of(output);
}

bool Communicator::Implementation::is_for_streams(const Call& call) const {
  if (!knows_devices_ || is_forked()) return false;
  if (has_device_way() && suits_devices(call)) return true;
  const auto any = [&](const BufferView& view, Buffer buffer) {
    return !device_ranges_of(view, elems_of(call, buffer, rank(), size()), 1).empty();
  };
  return any(call.input, Buffer::input) || any(call.output, Buffer::output);
}

bool Communicator::Implementation::come_by_streams(std::span<const MessageRequest> requests) const {
  if (!knows_devices_ || is_forked()) return false;
  if (stream_calls_.have_messages_to_post()) return true;
  return std::ranges::any_of(requests, [](const MessageRequest& request) {
    const bool sends = request.what == MessageRequest::What::send;
    return request.count > 0 && device::device_of(sends ? request.input : request.output);
  });
}

Result<std::shared_ptr<device::Passage>> Communicator::Implementation::passage(
    device::PassageRequest request) {
  // Where the rank has declared none, it is that of the memory.
  std::optional<int> device;
  if (options_.device != kHost) device = options_.device;
  for (const auto& ranges : {request.reads, request.writes}) {
    for (const auto& range : ranges) {
      const auto its = device::device_of(range.data);
      if (!device) device = its;
      if (its && *its != *device)
        return fail(ErrorKind::invalid_argument,
                    "a buffer is memory of GPU {}: expected memory of GPU {}, which the rank has, "
                    "or of the host",
                    *its, *device);
    }
  }
  // Messages of the host's that stand behind some of a device's.
  if (!device && !request.stream) device = stream_calls_.device();
  if (!device)
    return fail(ErrorKind::invalid_argument,
                "a stream is given, and this rank's data are on the host: expected a GPU's number "
                "as CommunicatorOptions::device");
  const auto staging = stream_calls_.staging(*device, options_.device_memory);
  if (!staging) return tl::unexpected(staging.error());
  if ((*staging)->device() != *device)
    return fail(ErrorKind::invalid_argument,
                "a buffer is memory of GPU {}, and calls before were on GPU {}: expected one GPU "
                "for all calls of a rank",
                *device, (*staging)->device());
  // Without a stream, what the default one has now is waited for.
  const auto captured = device::is_captured(request.stream.value_or(nullptr));
  if (!captured) return tl::unexpected(captured.error());
  request.is_captured = request.stream && *captured;
  if (request.program) return stream_calls_.device_way()->passage(request);
  return (*staging)->passage(request);
}

Result<Communicator::Implementation::Submitted> Communicator::Implementation::submit(
    device::PassageRequest request, Operations shown, const Prepare& prepare) {
  if (is_forked()) return tl::unexpected(news().value());
  CCOLL_TRY(called_from_outside());
  auto passage = caught([&] { return this->passage(request); });
  if (!passage) {
    // What only this rank lacks, the others would wait for.
    if (passage.error().kind == ErrorKind::invalid_argument) return tl::unexpected(passage.error());
    Owner owner(*this);
    CCOLL_TRY(usable_as_owner());
    threw_as_owner(passage.error());
    return tl::unexpected(*broken_);
  }
  const bool is_captured = request.stream && device::is_captured(*request.stream).value_or(false);
  // A graph's call has nobody to tell how it went.
  if (is_captured) shown.clear();
  const auto call = std::make_shared<StreamCall>(weak_from_this(), *passage, std::move(shown));
  const auto state = std::make_shared<Work::State>(Work::State{shared_from_this(), call->shown()});
  Operations operations(1);
  const auto begin = prepare(*call, *passage, is_captured);
  {
    Owner owner(*this);
    CCOLL_TRY(usable_as_owner());
    if (!is_captured) stream_calls_.add_as_owner(call);
    if (begin) {
      auto begun = begin_as_owner(*begin);
      if (!begun) return tl::unexpected(begun.error());
      operations[0] = std::move(*begun);
      call->began_as_owner(std::move(operations));
    }
  }
  return Submitted{Work(state), call, *passage, is_captured};
}

Status Communicator::Implementation::enqueue(const Submitted& submitted) {
  const auto put = caught([&] { return submitted.passage->enqueue(submitted.call); });
  if (put) return {};
  if (submitted.is_captured && !submitted.passage->is_made_by_device())
    return tl::unexpected(put.error());
  Owner owner(*this);
  CCOLL_TRY(usable_as_owner());
  threw_as_owner(put.error());
  return tl::unexpected(*broken_);
}

Result<Work> Communicator::Implementation::begin_in_stream(Call call,
                                                           std::optional<cudaStream_t> stream) {
  if (!has_device_way() || !suits_devices(call)) return begin_by_host(std::move(call), stream);
  const std::lock_guard lock(stream_calls_.device_submission());
  const auto on_device = device_program_for(call);
  if (!on_device) return tl::unexpected(on_device.error());
  if (*on_device != nullptr) {
    auto begun = begin_on_device(call, stream, **on_device);
    if (!begun) return tl::unexpected(std::move(begun.error()));
    if (*begun) return std::move(**begun);
  }
  return begin_by_host(std::move(call), stream);
}

Result<Work> Communicator::Implementation::begin_by_host(Call call,
                                                         std::optional<cudaStream_t> stream) {
  const auto width = size_of(call.type);
  const auto in = elems_of(call, Buffer::input, rank(), size());
  const auto out = elems_of(call, Buffer::output, rank(), size());
  const auto reads = device_ranges_of(call.input, in, width),
             writes = device_ranges_of(call.output, out, width);
  const auto prepare = [&](StreamCall& in_stream, const std::shared_ptr<device::Passage>& passage,
                           bool is_captured) -> std::optional<Call> {
    move_to_host(call.input, in, *passage);
    move_to_host(call.output, out, *passage);
    return begun_in_order(call, in_stream, passage, is_captured);
  };
  const std::lock_guard lock(stream_calls_.submission());
  auto submitted = submit({.reads = reads, .writes = writes, .stream = stream},
                          {std::make_shared<StreamOperation>()}, prepare);
  if (!submitted) return tl::unexpected(std::move(submitted.error()));
  CCOLL_TRY(enqueue(*submitted));
  return std::move(submitted->work);
}

std::optional<Call> Communicator::Implementation::begun_in_order(
    Call& call, StreamCall& in_stream, const std::shared_ptr<device::Passage>& passage,
    bool is_captured) {
  if (!is_captured) {
    call.gate = passage;
    return call;
  }
  call.from_graph = true;
  in_stream.begin_when_reached(
      [call, label = std::string(call.label)](Implementation& communicator) mutable {
        call.label = label;
        return communicator.begin_as_owner(call).map(
            [](const auto& operation) { return Operations{operation}; });
      });
  return std::nullopt;
}

Result<Work> Communicator::Implementation::begin_in_stream(
    std::vector<std::shared_ptr<MessageOperation>> operations, std::chrono::milliseconds timeout,
    std::optional<cudaStream_t> stream) {
  std::vector<device::MemoryRange> reads, writes;
  Operations shown;
  for (const auto& operation : operations) {
    const bool sends = operation->what == MessageOperation::What::send;
    auto* const data = sends ? const_cast<std::byte*>(operation->input) : operation->output;
    shown.push_back(std::make_shared<StreamOperation>());
    shown.back()->received = operation->received;
    if (operation->bytes == 0 || !device::device_of(data)) continue;
    reads.push_back({data, operation->bytes});
    // Of what a message may be shorter than, the rest stays as it is: it goes to the host and back.
    if (!sends) writes.push_back({data, operation->bytes});
  }
  const auto prepare = [&](StreamCall& in_stream, const std::shared_ptr<device::Passage>& passage,
                           bool /*is_captured*/) -> std::optional<Call> {
    for (const auto& operation : operations) {
      if (operation->bytes == 0) continue;
      if (device::device_of(operation->input))
        operation->input = passage->on_host(operation->input);
      if (device::device_of(operation->output))
        operation->output = passage->on_host(operation->output);
    }
    in_stream.begin_when_reached([operations, timeout](Implementation& communicator) {
      // New ones each time: a graph comes again.
      std::vector<std::shared_ptr<MessageOperation>> copies;
      for (const auto& operation : operations) copies.push_back(MessageOperation::like(*operation));
      return communicator.begin_as_owner(copies, timeout).map([&] {
        return Operations(copies.begin(), copies.end());
      });
    });
    if (!stream) in_stream.stand_before_others(stream_calls_.messages_to_post());
    return std::nullopt;
  };
  // A message may end only after one that is called later.
  const std::lock_guard lock(stream_calls_.submission());
  auto submitted =
      submit({.reads = reads, .writes = writes, .stream = stream, .ends_in_order = false},
             std::move(shown), prepare);
  if (!submitted) return tl::unexpected(std::move(submitted.error()));
  CCOLL_TRY(enqueue(*submitted));
  return std::move(submitted->work);
}

void Communicator::Implementation::stream_reached(std::shared_ptr<StreamCall> call) noexcept {
  stream_calls_.reached(std::move(call));
  waiter_->ring();
  begin_what_is_reached();
}

void Communicator::Implementation::begin_what_is_reached() { background_->schedule(); }

Status Communicator::Implementation::run_in_stream(const Call& call) {
  const auto signature = signature_of(call);
  const Blocking blocking{signature, std::nullopt};
  {
    Owner owner(*this);
    CCOLL_TRY(alone_as_owner(call));
    blocking_ = &blocking;
  }
  const auto unblock = [this](const void*) {
    Owner owner(*this);
    blocking_ = nullptr;
  };
  const std::unique_ptr<const Blocking, decltype(unblock)> blocked(&blocking, unblock);
  auto work = begin_in_stream(call, std::nullopt);
  if (!work) return tl::unexpected(work.error());
  work->wait();
  return {};
}

}  // namespace ccoll
