// SPDX-License-Identifier: Apache-2.0
#include "engine/device/stream_group.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/device/driver.hpp"
#include "kernels/device/launch.hpp"

namespace ccoll::device {

struct LoadedSteps {
  RankSteps of;
  /// Steps of programs loaded before: so a step's number says the program, too.
  std::uint32_t base = 0;
};

namespace {

using Clock = std::chrono::steady_clock;

/// A block of a kernel has at least so much to do.
constexpr std::uint64_t kBytesPerBlock = 32 << 10;

}  // namespace

class StreamGroup::Device {
 public:
  Device(const StreamGroupOptions& options, std::unique_ptr<SharedGroup> shared,
         const Driver& driver)
      : options_(options), driver_(driver), shared_(std::move(shared)), words_(shared_->words()) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  Status open();
  Result<const LoadedSteps*> load(const LoweredTeam& lowered);
  Status call(const LoadedSteps& steps, std::byte* input, std::byte* output, CUstream_st* stream);
  /// Whether what was called has ended by `deadline`; false at once where a rank has given up.
  Result<bool> ended_by(TimePoint deadline) const;
  /// Lets all streams go on until what was called has ended; false where it does not.
  bool end() const;
  /// Where this rank's stream is.
  std::string standing() const;
  /// Why all is over; nothing as long as it is not.
  std::optional<Failure> cause() const { return words_.cause(options_.rank); }
  void abort(const Failure& why) const {
    words_.give_up(options_.rank, why);
    words_.release();
  }
  void release() const { words_.release(); }
  bool has_ended() const {
    if (!called_.load(std::memory_order_acquire)) return true;
    // One that has failed has ended.
    return has_happened(finished_, options_.device).value_or(true);
  }

 private:
  struct Call {
    const RankSteps& steps;
    std::byte* const input;
    std::byte* const output;
    const cudaStream_t stream;
  };

  Status put_in(const LoadedSteps& steps, const Call& call) const;
  Status fold(const Call& call, const StepFold& fold, LaunchWords words) const;
  Status write(const Call& call, std::size_t at, std::uint32_t value) const;
  std::byte* address(const Call& call, const StepPlace& place) const;
  CUdeviceptr on_device(std::size_t at) const {
    return reinterpret_cast<CUdeviceptr>(shared_->word_on_device(at));
  }
  std::string awaited(const RankSteps& steps, std::uint32_t from) const;

  const StreamGroupOptions options_;
  const Driver& driver_;
  const std::unique_ptr<SharedGroup> shared_;
  const GroupWords words_;
  OwnEvent finished_;  // immutable after open(); recorded behind the last call, but for graphs
  std::atomic<bool> called_{false};
  std::vector<std::unique_ptr<LoadedSteps>> programs_;
  const LoadedSteps* last_ = nullptr;  ///< called
};

StreamGroup::Device::~Device() {
  const CurrentDevice current(options_.device);
  const BesideCaptures beside;
  finished_.reset();
}

Status StreamGroup::Device::open() {
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  return put(make_event(), finished_);
}

Result<const LoadedSteps*> StreamGroup::Device::load(const LoweredTeam& lowered) {
  auto loaded = std::make_unique<LoadedSteps>();
  CCOLL_TRY(put(steps_of(lowered, options_.rank), loaded->of));
  const RankSteps& steps = loaded->of;
  if (steps.size != options_.size || steps.shared_bytes > options_.shared_bytes ||
      steps.links > options_.links) {
    return fail(ErrorKind::unsupported,
                "a program of {} ranks that needs {} bytes of each and {} links from one to "
                "another: this group has {} ranks, {} bytes and {} links",
                steps.size, steps.shared_bytes, steps.links, options_.size, options_.shared_bytes,
                options_.links);
  }
  if (!programs_.empty()) {
    const LoadedSteps& before = *programs_.back();
    loaded->base = before.base + static_cast<std::uint32_t>(before.of.steps.size());
  }
  return programs_.emplace_back(std::move(loaded)).get();
}

Status StreamGroup::Device::call(const LoadedSteps& steps, std::byte* input, std::byte* output,
                                 CUstream_st* stream) {
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  CCOLL_TRY(cuda_status(cudaStreamGetCaptureInfo(stream, &status, &id),
                        "asking whether a stream is captured"));
  const bool is_captured = status != cudaStreamCaptureStatusNone;
  // Calls follow one another, whatever streams they are in.
  if (!is_captured && called_) {
    CCOLL_TRY(cuda_status(cudaStreamWaitEvent(stream, finished_.get(), 0),
                          "a call waiting for the one before"));
  }
  Status called = put_in(steps, {steps.of, input, output, stream});
  if (is_captured) return called;
  last_ = &steps;
  called_ = true;
  const Status recorded =
      cuda_status(cudaEventRecord(finished_.get(), stream), "recording the end of a call");
  if (called) called = recorded;
  // What others wait for may never come now; of a capture nothing runs.
  if (!called) abort(called.error());
  return called;
}

Status StreamGroup::Device::put_in(const LoadedSteps& steps, const Call& call) const {
  const RankSteps& of = steps.of;
  for (std::uint32_t i = 0; i < of.steps.size(); ++i) {
    const RankStep& step = of.steps[i];
    for (std::uint32_t word = step.waits.begin; word < step.waits.end; ++word) {
      CCOLL_TRY(driver_.status(driver_.wait_value(call.stream, on_device(words_.at(of.words[word])),
                                                  of.words[word].value, CU_STREAM_WAIT_VALUE_GEQ),
                               "cuStreamWaitValue32"));
    }
    for (std::uint32_t fold = step.folds.begin; fold < step.folds.end; ++fold) {
      LaunchWords words;
      words.abort = shared_->word_on_device(GroupWords::abort_at());
      if (fold == step.folds.begin) {
        words.begun = shared_->word_on_device(GroupWords::begun_at(options_.rank));
        words.number = steps.base + i + 1;
      }
      CCOLL_TRY(this->fold(call, of.folds[fold], words));
    }
    for (std::uint32_t word = step.writes.begin; word < step.writes.end; ++word) {
      CCOLL_TRY(write(call, words_.at(of.words[word]), of.words[word].value));
    }
  }
  return write(call, GroupWords::begun_at(options_.rank), 0);
}

Status StreamGroup::Device::write(const Call& call, std::size_t at, std::uint32_t value) const {
  return driver_.status(
      driver_.write_value(call.stream, on_device(at), value, CU_STREAM_WRITE_VALUE_DEFAULT),
      "cuStreamWriteValue32");
}

Status StreamGroup::Device::fold(const Call& call, const StepFold& fold, LaunchWords words) const {
  std::vector<const std::byte*> sources;
  for (std::uint32_t i = fold.sources.begin; i < fold.sources.end; ++i) {
    sources.push_back(address(call, call.steps.places[i]));
  }
  const std::uint64_t blocks = (fold.bytes + kBytesPerBlock - 1) / kBytesPerBlock;
  const LaunchShape shape{
      static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, options_.most_blocks)), 512};
  std::byte* const out = address(call, fold.out);
  if (sources.size() == 1 && fold.divisor == 1) {
    return launch_copy(sources[0], out, fold.bytes, shape, call.stream, words);
  }
  return launch_combine(call.steps.type, call.steps.op, sources, out,
                        fold.bytes / size_of(call.steps.type), fold.divisor, shape, call.stream,
                        words);
}

std::byte* StreamGroup::Device::address(const Call& call, const StepPlace& place) const {
  switch (place.in) {
    case StepPlace::In::input:
      return call.input + place.offset;
    case StepPlace::In::output:
      return call.output + place.offset;
    case StepPlace::In::shared:
      return shared_->memory(place.rank) + place.offset;
  }
  return nullptr;
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
    if (cause() || Clock::now() >= deadline) return false;
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
    // What a stream has written since may have undone it.
    words_.release();
    const cudaError_t error = cudaEventQuery(finished_.get());
    if (error == cudaSuccess) return true;
    (void)cudaGetLastError();
    if (error != cudaErrorNotReady) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  } while (Clock::now() < limit);
  return false;
}

/// Where the last program is that was called, as it has begun to work on none, or the one that it
/// works on.
std::string StreamGroup::Device::standing() const {
  if (last_ == nullptr) return "nothing was called";
  const std::uint32_t begun = load_acquire(words_.word(GroupWords::begun_at(options_.rank)));
  const LoadedSteps* at = last_;
  for (const auto& each : programs_) {
    if (begun > each->base && begun <= each->base + each->of.steps.size()) at = each.get();
  }
  const std::uint32_t next = begun == 0 ? 0 : begun - at->base;
  return fmt::format("rank {} stands after {} of its {} steps{}", options_.rank, next,
                     at->of.steps.size(), awaited(at->of, next));
}

/// The first word that steps from `from` on wait for in vain.
std::string StreamGroup::Device::awaited(const RankSteps& steps, std::uint32_t from) const {
  for (std::uint32_t i = from; i < steps.steps.size(); ++i) {
    const RankStep& step = steps.steps[i];
    for (std::uint32_t at = step.waits.begin; at < step.waits.end; ++at) {
      const StepWord& word = steps.words[at];
      const std::uint32_t value = load_acquire(words_.word(words_.at(word)));
      if (value >= word.value) continue;
      return word.popped
                 ? fmt::format(", and waits for rank {} to have read slice {} (it has read {})",
                               word.to, word.value, value)
                 : fmt::format(", and waits for slice {} of rank {} (which has sent {})",
                               word.value, word.from, value);
    }
  }
  return "";
}

Result<std::unique_ptr<StreamGroup>> StreamGroup::make(const StreamGroupOptions& options,
                                                       Exchange& exchange, TimePoint deadline) {
  std::unique_ptr<SharedGroup> shared;
  CCOLL_TRY(put(SharedGroup::make(options, exchange, deadline), shared));
  const auto driver = find_driver();
  CCOLL_TRY(driver);
  auto device = std::make_unique<Device>(options, std::move(shared), **driver);
  CCOLL_TRY(device->open());
  return std::unique_ptr<StreamGroup>(new StreamGroup(std::move(device)));
}

StreamGroup::StreamGroup(std::unique_ptr<Device> device) : device_(std::move(device)) {}

StreamGroup::~StreamGroup() {
  const auto ended = device_->ended_by(Clock::now());
  if (ended && *ended) return;
  device_->abort({ErrorKind::aborted, "the group has gone before its calls ended", std::nullopt});
  if (device_->end()) return;
  // What may still be used must stay.
  static std::mutex mu;
  static auto& kept = *new std::vector<std::unique_ptr<Device>>;
  const std::lock_guard lock(mu);
  kept.push_back(std::move(device_));
}

Result<const LoadedSteps*> StreamGroup::load(const LoweredTeam& lowered) {
  return device_->load(lowered);
}

Status StreamGroup::call(const LoadedSteps* steps, std::byte* input, std::byte* output,
                         CUstream_st* stream) {
  CCOLL_TRY(check());
  return device_->call(*steps, input, output, stream);
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
        "; its stream has not ended {} s after it was let go on: buffers may still be written",
        kGrace.count());
  }
  return tl::unexpected(std::move(why));
}

Status StreamGroup::check() const {
  if (auto cause = device_->cause()) return tl::unexpected(std::move(*cause));
  return {};
}

void StreamGroup::abort(const Failure& why) { device_->abort(why); }

void StreamGroup::release() const { device_->release(); }

bool StreamGroup::has_ended() const { return device_->has_ended(); }

}  // namespace ccoll::device
