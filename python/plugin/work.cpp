// SPDX-License-Identifier: Apache-2.0
#include "work.hpp"

#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <string>
#include <thread>

namespace ccoll::plugin {
namespace {

using c10::ivalue::Future;

std::atomic<int> inside{0};
std::atomic<bool> ending{false};

bool all_over(Operations& operations) {
  for (auto& each : operations)
    if (!each.test()) return false;
  return true;
}

template <typename Exception>
std::exception_ptr made(const std::string& text) {
  return std::make_exception_ptr(Exception({__func__, __FILE__, __LINE__}, text));
}

}  // namespace

std::exception_ptr as_torchs(const Error& error) {
  const std::string text = error.what();
  if (error.kind() == ErrorKind::invalid_argument) return made<c10::ValueError>(text);
  if (error.kind() == ErrorKind::unsupported) return made<c10::NotImplementedError>(text);
  // Programs look for these words.
  const char* const hint =
      error.kind() == ErrorKind::timed_out ? " (timed out: the timeout has passed)" : "";
  return made<c10::DistBackendError>("ccoll: " + std::string(to_string(error.kind())) + hint +
                                     ": " + text);
}

void throw_as_torchs(const Error& error) { std::rethrow_exception(as_torchs(error)); }

bool Keeper::Kept::is_over() {
  return all_over(operations) && (in == nullptr || !arguments.has_copies() || in->is_over());
}

void Keeper::keep(Operations operations, Arguments arguments,
                  std::shared_ptr<const StreamCall> in) {
  const std::lock_guard lock(mutex_);
  kept_.push_back({std::move(operations), std::move(arguments), std::move(in)});
  has_any_ = true;
}

void Keeper::sweep() {
  if (!has_any_) return;
  std::vector<Kept> over;  // tensors may want the GIL when they end: not under the lock
  const std::lock_guard lock(mutex_);
  std::vector<Kept> still;
  for (auto& each : kept_) (each.is_over() ? over : still).push_back(std::move(each));
  kept_ = std::move(still);
  has_any_ = !kept_.empty();
}

void Keeper::clear() {
  static std::mutex& mutex = *new std::mutex;
  static std::vector<Kept>& in_use = *new std::vector<Kept>;
  std::vector<Kept> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(kept_);
  }
  // A stream may go on after its communicator: its tensors stay until a later group ends.
  const std::lock_guard lock(mutex);
  all.insert(all.end(), std::move_iterator(in_use.begin()), std::move_iterator(in_use.end()));
  in_use.clear();
  for (auto& each : all)
    if (each.is_in_use()) in_use.push_back(std::move(each));
}

Inside::Inside() {
  // The others are not there in a forked child.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { inside = 0; });
  (void)registered;
  inside++;
}

Inside::~Inside() { inside--; }
bool Inside::is_ending() { return ending; }

void Inside::end() {
  ending = true;
  // One that does not return must not hold up the exit for ever.
  for (int i = 0; i < 1000 && inside > 0; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

c10::intrusive_ptr<Work> Work::make(const Origin& origin, Operations operations,
                                    Arguments arguments, std::shared_ptr<Keeper> keeper,
                                    std::shared_ptr<const StreamCall> in) {
  auto work = c10::make_intrusive<Work>(origin, std::move(operations), std::move(arguments),
                                        std::move(keeper), std::move(in));
  if (work->in_) work->end_profile();  // the host's part is over; the profiler sees the GPU's own
  // It ends by itself also where it is dropped. In a stream the copies are on their way already.
  if (origin.begun || (work->arguments_.has_copies() && !work->in_)) work->when_over([] {});
  return work;
}

c10::intrusive_ptr<Work> Work::of_all(const Origin& origin,
                                      std::vector<c10::intrusive_ptr<Work>> works,
                                      std::shared_ptr<Keeper> keeper) {
  Operations operations;
  Arguments arguments("ccoll:coalesced");
  for (const auto& each : works) {
    operations.append(each->operations_.begin(), each->operations_.end());
    arguments.add(each->arguments_);
  }
  auto work = c10::make_intrusive<Work>(origin, std::move(operations), std::move(arguments),
                                        std::move(keeper), nullptr);
  work->parts_ = std::move(works);
  return work;
}

Work::Work(const Origin& origin, Operations operations, Arguments arguments,
           std::shared_ptr<Keeper> keeper, std::shared_ptr<const StreamCall> in)
    : c10d::Work(origin.rank, origin.type, origin.title),
      origin_(origin),
      operations_(std::move(operations)),
      arguments_(std::move(arguments)),
      keeper_(std::move(keeper)),
      in_(std::move(in)) {}

Work::~Work() {
  // torch gives memory away in the order of the stream that the call came from and that waits.
  if (is_over_ || is_ordered_ || keeper_ == nullptr) return;
  if (all_over(operations_) && is_copied()) return;
  keeper_->keep(std::move(operations_), std::move(arguments_), in_);
}

bool Work::isCompleted() {
  if (is_over_) return true;
  if (!all_over(operations_) || !is_copied()) return false;
  for (const auto& each : parts_)
    if (!each->isCompleted()) return false;
  settle();
  return true;
}

void Work::settle() {
  const std::lock_guard lock(mutex_);
  if (is_over_) return;
  for (auto& each : operations_) {
    try {
      each.wait();
    } catch (const Error& error) {
      if (!exception_) {
        is_late_ = error.kind() == ErrorKind::timed_out;
        exception_ = as_torchs(error);
      }
    }
  }
  try {
    for (const auto& each : parts_) each->settle();
    if (!exception_ && !in_) arguments_.finish();
  } catch (...) {
    exception_ = std::current_exception();
  }
  const bool receives = opType_ == c10d::OpType::RECV || opType_ == c10d::OpType::RECVANYSOURCE;
  if (!exception_ && receives && !(in_ && in_->is_captured()))
    source_ = operations_.front().received().from;
  end_profile();
  completed_ = true;
  is_over_ = true;
}

void Work::end_profile() {
  if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
}

bool Work::isSuccess() const { return is_over() && !exception_; }

std::exception_ptr Work::exception() const { return is_over() ? exception_ : nullptr; }

bool Work::waits_in_stream(std::chrono::milliseconds timeout) const {
  return in_ && (in_->is_captured() || (timeout <= kNoTimeout && opType_ != c10d::OpType::BARRIER));
}

bool Work::wait(std::chrono::milliseconds timeout) {
  if (waits_in_stream(timeout)) {
    synchronize();
    return true;
  }
  const auto is_in_stream = [](const auto& part) { return part->in_ != nullptr; };
  if (std::any_of(parts_.begin(), parts_.end(), is_in_stream)) {
    for (const auto& each : parts_) each->wait(timeout);
    return true;
  }
  if (!is_over_) {
    await_operations(timeout);
    settle();
  }
  if (exception_) std::rethrow_exception(exception_);
  if (in_) synchronize();
  return true;
}

void Work::await_operations(std::chrono::milliseconds timeout) {
  const bool is_limited = timeout > kNoTimeout;
  const auto deadline = is_limited ? Clock::now() + timeout : Clock::time_point{};
  // All of it, though a part failed: until then the tensors are in use.
  for (auto& each : operations_) {
    std::optional<std::chrono::milliseconds> left;
    if (is_limited)
      left = std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()),
                      std::chrono::milliseconds(0));
    try {
      each.wait(left);
    } catch (const Error& error) {
      if (is_limited && !each.test()) throw_as_torchs(error);  // the operation goes on
      if (in_) return;  // the stream may never come to the copies
    }
  }
  if (in_ && arguments_.has_copies() &&
      !in_->await(is_limited ? std::optional(deadline) : std::nullopt))
    throw_as_torchs(Error(ErrorKind::timed_out, "the stream has not come to the end of the call"));
}

void Work::synchronize() {
  if (isCompleted() && exception_) std::rethrow_exception(exception_);
  for (const auto& each : parts_) each->synchronize();
  if (in_ && in_->hold_back_current()) is_ordered_ = true;
}

void Work::await_copies() const {
  if (in_ && arguments_.has_copies()) in_->await();
  for (const auto& each : parts_) each->await_copies();
}

std::vector<const StreamCall*> Work::stream_calls() const {
  std::vector<const StreamCall*> calls;
  if (in_) calls.push_back(in_.get());
  for (const auto& each : parts_)
    if (each->in_) calls.push_back(each->in_.get());
  return calls;
}

std::vector<Tensor> Work::result() {
  TORCH_CHECK(isCompleted(), "ccoll: result: the operation is under way: wait for it first");
  if (exception_) std::rethrow_exception(exception_);
  return arguments_.outputs();
}

int Work::sourceRank() const {
  TORCH_CHECK(is_over(), "ccoll: source_rank: the operation is under way: wait for it first");
  if (exception_) std::rethrow_exception(exception_);
  TORCH_CHECK(source_ >= 0,
              "ccoll: source_rank: the operation is not a receive, or it is part of a graph");
  return source_;
}

c10::intrusive_ptr<Future> Work::getFuture() {
  {
    const std::lock_guard lock(mutex_);
    if (future_) return future_;
    std::vector<at::Device> devices;
    for (const auto* each : stream_calls()) devices.push_back(each->lane().device());
    future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()),
                                          std::move(devices));
  }
  if (const auto calls = stream_calls(); !calls.empty()) {
    // A stream that takes the value waits for what is in this lane by then.
    const auto lane = calls.front()->lane();
    for (const auto* each : calls) each->hold_back(lane);
    const c10::StreamGuard guard(lane);
    if (isCompleted() && exception_)
      future_->setError(exception_);
    else
      future_->markCompleted(at::IValue(arguments_.outputs()));
    return future_;
  }
  when_over([this] {
    if (exception_)
      future_->setError(exception_);
    else
      future_->markCompleted(at::IValue(arguments_.outputs()));
  });
  return future_;
}

c10::intrusive_ptr<Future> Work::getFutureResult() {
  auto future = c10::make_intrusive<Future>(c10::IntType::get());
  when_over([this, future] {
    const auto result = !exception_ ? c10d::WorkResult::SUCCESS
                        : is_late_  ? c10d::WorkResult::TIMEOUT
                                    : c10d::WorkResult::COMM_ERROR;
    future->markCompleted(at::IValue(static_cast<std::int64_t>(result)));
  });
  return future;
}

float Work::getDuration() const {
  TORCH_CHECK(origin_.begun, "ccoll: _get_duration: timing was not enabled before the call");
  const_cast<Work*>(this)->wait(kNoTimeout);
  // The library's thread may come a moment after this one.
  for (int i = 0; i < 1000 && duration_ns_ < 0; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  TORCH_CHECK(duration_ns_ >= 0, "ccoll: _get_duration: the end of the operation was not recorded");
  return static_cast<float>(static_cast<double>(duration_ns_) / 1e6);
}

void Work::when_over(std::function<void()> tell) {
  if (isCompleted() && !origin_.begun) {
    tell();
    return;
  }
  struct Watch {
    c10::intrusive_ptr<Work> work;
    std::function<void()> tell;
    std::atomic<std::size_t> left;
  };
  auto* const watch = new Watch{c10::intrusive_ptr<Work>::reclaim_copy(this), std::move(tell),
                                std::max<std::size_t>(operations_.size(), 1)};
  const auto over = [watch](const Error*) {
    const Inside here;
    // At the interpreter's end it is left where it is.
    if (--watch->left > 0 || Inside::is_ending()) return;
    const std::unique_ptr<Watch> own(watch);
    auto& work = *own->work;
    const auto calls = work.stream_calls();
    if (!calls.empty()) use_device(calls.front()->lane().device());
    if (work.origin_.begun && work.duration_ns_ < 0)
      work.duration_ns_ = std::chrono::nanoseconds(Clock::now() - *work.origin_.begun).count();
    try {
      work.await_copies();
    } catch (const std::exception&) {  // CUDA itself has failed, which its own calls tell
    }
    work.settle();
    own->tell();
  };
  if (operations_.empty()) return over(nullptr);
  for (auto& each : operations_) each.on_done(over);
}

}  // namespace ccoll::plugin
