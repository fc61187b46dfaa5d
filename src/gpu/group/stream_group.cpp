// SPDX-License-Identifier: Apache-2.0
#include "gpu/group/stream_group.hpp"

#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/cuda/cuda.hpp"
#include "gpu/staging/leases.hpp"

namespace ccoll::device {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

class StreamGroup::Device {
 public:
  Device(const StreamGroupOptions& options, std::unique_ptr<SharedGroup> shared)
      : options_(options), shared_(std::move(shared)), words_(shared_->words()) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  Status open(Exchange& exchange, TimePoint deadline);
  Result<const GroupProgram*> load(const LoweredTeam& lowered);
  Status call(const GroupCall& call);
  /// Whether what was called has ended by `deadline`; false at once if a rank has given up.
  Result<bool> ended_by(TimePoint deadline) const;
  /// Lets all streams go on until what was called has ended; false if it does not end.
  bool end() const;
  /// Where this rank's stream is.
  std::string standing() const {
    return last_ == nullptr ? "nothing was called" : standing(*last_);
  }
  std::string standing(const GroupProgram& program) const { return calls_->standing(program); }
  /// Why all is over; empty if it is not.
  std::optional<Failure> cause() const { return words_.cause(options_.rank); }
  void abort(const Failure& why) const {
    words_.give_up(options_.rank, why);
    words_.release();
  }
  void release() const { words_.release(); }
  bool has_ended() const {
    if (!called_.load(std::memory_order_acquire)) return true;
    // A stream that has failed has ended.
    return has_happened(finished_, options_.device).value_or(true);
  }
  std::optional<PlainCalls> plain_calls() const {
    if (options_.by_kernels) return std::nullopt;
    const std::uint32_t* const words = words_.word(GroupWords::plain_at(options_.rank));
    return PlainCalls{load_acquire(words), load_acquire(words + 1)};
  }
  std::uint64_t slot_bytes() const { return calls_->slot_bytes(); }
  std::uint64_t held_bytes() const { return shared_->own_bytes() + calls_->held_bytes(); }
  const StreamGroupOptions& options() const { return options_; }

 private:
  const StreamGroupOptions options_;
  std::unique_ptr<SharedGroup> shared_;  // immutable after make
  const GroupWords words_;
  std::unique_ptr<GroupCalls> calls_;  // immutable after open()
  OwnEvent finished_;  // immutable after open(); recorded behind the last call, except graphs'
  std::atomic<bool> called_{false};
  const GroupProgram* last_ = nullptr;  ///< called last
};

StreamGroup::Device::~Device() {
  const CurrentDevice current(options_.device);
  const BesideCaptures beside;
  finished_.reset();
  calls_.reset();
  shared_.reset();
}

Status StreamGroup::Device::open(Exchange& exchange, TimePoint deadline) {
  const CurrentDevice current(options_.device);
  const BesideCaptures beside;
  CCOLL_TRY(current.status());
  CCOLL_TRY(put(options_.by_kernels ? make_kernel_calls(options_, *shared_, exchange, deadline)
                                    : make_step_calls(options_, *shared_, exchange, deadline),
                calls_));
  return put(make_event(), finished_);
}

Result<const GroupProgram*> StreamGroup::Device::load(const LoweredTeam& lowered) {
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  return calls_->load(lowered);
}

Status StreamGroup::Device::call(const GroupCall& call) {
  // Calls follow one another, whatever streams they are in.
  if (!call.is_captured && called_) {
    CCOLL_TRY(cuda_status(cudaStreamWaitEvent(call.stream, finished_.get(), 0),
                          "a call waiting for the one before"));
  }
  Status called = calls_->put(call);
  if (call.is_captured) return called;
  last_ = &call.program;
  called_ = true;
  const Status recorded =
      cuda_status(cudaEventRecord(finished_.get(), call.stream), "recording the end of a call");
  if (called) called = recorded;
  // Others may wait in vain for this call, which failed; a failed capture never runs.
  if (!called) abort(called.error());
  return called;
}

Result<bool> StreamGroup::Device::ended_by(TimePoint deadline) const {
  if (!called_) return true;
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  for (;;) {
    const cudaError_t error = cudaEventQuery(finished_.get());
    if (error == cudaSuccess) return true;
    if (error != cudaErrorNotReady) {
      return tl::unexpected(cuda_failure(error, "waiting for a call's end"));
    }
    (void)cudaGetLastError();
    if (words_.is_over() || Clock::now() >= deadline) return false;
    // CUDA has no wait with a limit.
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

bool StreamGroup::Device::end() const {
  if (!called_) return true;
  const CurrentDevice current(options_.device);
  const BesideCaptures beside;
  const auto limit = Clock::now() + kGrace;
  do {
    // A stream's later writes may have undone the release.
    words_.release();
    const cudaError_t error = cudaEventQuery(finished_.get());
    if (error == cudaSuccess) return true;
    (void)cudaGetLastError();
    if (error != cudaErrorNotReady) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  } while (Clock::now() < limit);
  return false;
}

Result<std::unique_ptr<StreamGroup>> StreamGroup::make(const StreamGroupOptions& options,
                                                       Exchange& exchange, TimePoint deadline) {
  std::unique_ptr<SharedGroup> shared;
  auto room = options;
  if (options.by_kernels) {
    room.shared_bytes += kernel_calls_bytes();
    room.links = 1;  // kernels have no use for links
  }
  CCOLL_TRY(put(SharedGroup::make(room, exchange, deadline), shared));
  auto device = std::make_unique<Device>(options, std::move(shared));
  CCOLL_TRY(device->open(exchange, deadline));
  return std::unique_ptr<StreamGroup>(new StreamGroup(std::move(device)));
}

StreamGroup::StreamGroup(std::unique_ptr<Device> device) : device_(std::move(device)) {}

StreamGroup::~StreamGroup() {
  const auto ended = device_->ended_by(Clock::now());
  if (ended && *ended) return;
  device_->abort({ErrorKind::aborted, "the group has gone before its calls ended", std::nullopt});
  if (device_->end()) return;
  // Memory that may still be used must stay.
  keep_for_ever(std::move(device_));
}

std::vector<std::uint32_t> StreamGroup::device_numbers() const {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t rank = 0; device_->options().by_kernels && rank < device_->options().size;
       ++rank)
    numbers.push_back(rank);
  return numbers;
}

Result<const GroupProgram*> StreamGroup::load(const LoweredTeam& lowered) {
  return device_->load(lowered);
}

Status StreamGroup::call(const GroupProgram* program, std::byte* input, std::byte* output,
                         CUstream_st* stream, bool is_captured) {
  CCOLL_TRY(check());
  return device_->call({*program, input, output, stream, is_captured});
}

Status StreamGroup::wait(TimePoint deadline) {
  auto ended = device_->ended_by(deadline);
  if (!ended) {
    device_->abort(ended.error());
    return tl::unexpected(std::move(ended.error()));
  }
  if (*ended) return check();
  const std::string standing = device_->standing();
  if (!device_->cause()) {
    device_->abort({ErrorKind::timed_out, fmt::format("calls have not ended in time: {}", standing),
                    std::nullopt});
  }
  const bool is_over = device_->end();
  Failure why = *device_->cause();
  if (why.message.find(standing) == std::string::npos) why.message += "; " + standing;
  if (!is_over) {
    why.message += fmt::format(
        "; its stream has not ended {} s after it was told to continue: buffers may still be "
        "written",
        kGrace.count());
  }
  return tl::unexpected(std::move(why));
}

std::string StreamGroup::standing(const GroupProgram& program) const {
  return device_->standing(program);
}

Status StreamGroup::check() const {
  if (auto cause = device_->cause()) return tl::unexpected(std::move(*cause));
  return {};
}

void StreamGroup::abort(const Failure& why) { device_->abort(why); }

void StreamGroup::release() const { device_->release(); }

bool StreamGroup::has_ended() const { return device_->has_ended(); }

std::optional<StreamGroup::PlainCalls> StreamGroup::plain_calls() const {
  return device_->plain_calls();
}

std::uint64_t StreamGroup::held_bytes() const { return device_->held_bytes(); }

std::uint64_t StreamGroup::slot_bytes() const { return device_->slot_bytes(); }

}  // namespace ccoll::device
