// SPDX-License-Identifier: Apache-2.0
#include "engine/device/team.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "engine/device/copy_engines.hpp"
#include "engine/device/cuda.hpp"
#include "engine/device/peers.hpp"
#include "kernels/device/combine.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {

struct LoadedProgram {
  /// What one GPU has of it.
  struct Part {
    TeamProgram program;  ///< its lists are in `lists`
    DeviceMemory lists;
    std::uint32_t threads = 0;
  };
  std::vector<Part> parts;                      ///< by the GPU's number in the team
  std::vector<TeamBlock> blocks;                ///< of all, for messages
  std::vector<TeamCopy> copies;                 ///< which make its calls, where there are any
  mutable std::atomic<bool> was_copied{false};  ///< a call of it was made by those
  const void* kernel = nullptr;
  std::size_t shared_bytes = 0;
  const LoadedProgram* in_place = nullptr;  ///< what serves in its place where buffers are so
  const LoadedProgram* lending_nothing = nullptr;  ///< or not all GPUs reach them
};

namespace {

constexpr std::uint32_t kMostFlags = 32768;
constexpr std::uint32_t kMostBlocks = 2048;
/// Those of GPUs that have nothing to do have numbers behind the others'.
constexpr std::uint32_t kMostProgress = kMostBlocks + kMostTeamDevices;
constexpr std::size_t kTicketsAt = 128;
static_assert(sizeof(TeamClaim) <= kTicketsAt);
/// What a kernel has without asking for more.
constexpr std::size_t kMostSharedBytes = 48 << 10;
/// The abort word has a line of memory to itself, but for the word beside it that says why.
constexpr std::size_t kBusyAt = 1;
constexpr std::size_t kProgressAt = 128;

const void* kernel_of(Family family) {
  switch (family) {
    case Family::bits:
      return team_kernel_of_bits();
    case Family::integers:
      return team_kernel_of_integers();
    case Family::floats:
      return team_kernel_of_floats();
    case Family::small_floats:
      return team_kernel_of_small_floats();
  }
  return nullptr;
}

Result<int> attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  CCOLL_TRY(cuda_status(cudaDeviceGetAttribute(&value, which, device),
                        fmt::format("asking what GPU {} can do", device)));
  return value;
}

/// A program's lists one after another, as they are to lie on the device.
class Lists {
 public:
  template <typename T>
  std::size_t add(const std::vector<T>& list) {
    const std::size_t at = (bytes_.size() + kTeamAlignment - 1) / kTeamAlignment * kTeamAlignment;
    bytes_.resize(at + list.size() * sizeof(T));
    if (!list.empty()) std::memcpy(bytes_.data() + at, list.data(), list.size() * sizeof(T));
    return at;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

/// All of the team's.
class Team::Device final : public TeamDevice {
 public:
  explicit Device(const TeamOptions& options) : options_(options) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() override;

  Status open();
  Result<LoadedProgram*> load(const LoweredTeam& lowered);
  /// Whether what was launched has ended by `deadline`.
  Result<bool> ended_by(TimePoint deadline) const;
  /// Whether all GPUs have counted the same calls.
  bool is_even() const { return is_even_; }
  const std::vector<std::uint32_t>& numbers() const { return numbers_; }
  /// After a call's end: whether it is whole.
  Status finished(const LoadedProgram* program) const;
  /// What has not ended of what was launched.
  std::string standing() const;
  const LoadedProgram* launched() const;

  Status arrive(TeamCall& call) override;
  Status launch(std::span<const TeamCall> calls, std::uint32_t last) override;
  Status leave(const TeamCall& call) override;
  void abort() override;
  /// Once what was launched has ended.
  void forget_abort() {
    store_relaxed(abort_word(), 0);
    store_relaxed(abort_word() + kBusyAt, 0);
  }
  /// Whether a call has found another one under way, and both have been told to end.
  bool was_busy() const { return load_acquire(abort_word() + kBusyAt) != 0; }

 private:
  /// One GPU, and what is given back while it is the current one.
  struct Gpu {
    int device = 0;
    OwnStream launches, uploads;
    /// Of captures, each while one is under way, but for what is launched in a rank's own stream.
    std::vector<OwnStream> captured_launches;
    OwnEvent finished;                       ///< recorded on `launches`
    OwnEvent captured;                       ///< recorded in a graph
    DeviceMemory tickets, flags, workspace;  ///< before the tickets the claim
    std::byte* words = nullptr;              ///< where it sees them
  };

  std::string standing_blocks(const LoadedProgram* program) const;
  Status number_devices();
  Status open(Gpu& gpu);
  Status zero_state(Gpu& gpu) const;
  Status upload(LoadedProgram::Part& part, const LoweredTeam& lowered, std::uint32_t number) const;
  Status shape(LoadedProgram::Part& part, const LoadedProgram& loaded, const Gpu& gpu) const;
  Result<std::uint32_t> blocks_at_once(const LoadedProgram& loaded, const Gpu& gpu,
                                       std::uint32_t threads) const;
  int device_of(std::uint32_t rank) const { return gpus_[numbers_[rank]].device; }
  bool is_reached(const TeamCall& call) const;
  const LoadedProgram& fitting(std::span<const TeamCall> calls) const;
  Result<std::vector<cudaStream_t>> streams_for(std::span<const TeamCall> calls,
                                                std::uint32_t last);
  static Result<cudaStream_t> captured_stream(Gpu& gpu, std::uint64_t capture);
  /// Whether by copies, else by kernels.
  Result<bool> make(const LoadedProgram& program, std::span<const TeamCall> calls,
                    std::span<const cudaStream_t> streams);
  Status launch_parts(const LoadedProgram& program, std::span<const TeamCall> calls,
                      std::span<const cudaStream_t> streams);
  bool end_parts(std::uint32_t count, bool is_captured);
  Status join(std::span<const cudaStream_t> streams, std::uint32_t home, bool is_captured) const;
  TeamLaunch arguments(const LoadedProgram& program, std::span<const TeamCall> calls,
                       std::uint32_t number) const;
  const OwnEvent& end_of(const Gpu& gpu, bool is_captured) const {
    return is_captured ? gpu.captured : gpu.finished;
  }
  std::uint64_t* abort_word() const { return reinterpret_cast<std::uint64_t*>(words_.get()); }
  TeamProgress* progress() const {
    return reinterpret_cast<TeamProgress*>(words_.get() + kProgressAt);
  }

  const TeamOptions options_;
  std::vector<std::uint32_t> numbers_;  // by rank; immutable after open()
  std::vector<Gpu> gpus_;               // by number; immutable after open(), but captured_launches
  std::vector<OwnEvent> arrived_;       // by rank; immutable after open()
  MappedMemory words_;                  // the abort word, then at kProgressAt the blocks' progress
  std::uint64_t launches_ = 0;          // one launch comes after the other
  mutable std::mutex mu_;
  std::vector<std::unique_ptr<LoadedProgram>> programs_;  // guarded by mu_
  const LoadedProgram* launched_ = nullptr;  // guarded by mu_; the last one, not by graphs
  bool launched_copies_ = false;             // guarded by mu_; it was made by copies
  std::uint32_t home_ = 0;  // guarded by mu_; the GPU on which the last launch ends
  std::atomic<bool> is_even_{true};
};

Team::Device::~Device() {
  const BesideCaptures beside;
  for (const Gpu& gpu : gpus_) {
    const CurrentDevice current(gpu.device);
    if (gpu.launches) cudaStreamSynchronize(gpu.launches.get());
  }
  for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
    const CurrentDevice current(gpus_[number].device);
    gpus_[number] = {};
    for (std::uint32_t rank = 0; rank < arrived_.size(); ++rank)
      if (numbers_[rank] == number) arrived_[rank].reset();
    for (const auto& program : programs_) program->parts[number].lists.reset();
    if (number + 1 == gpus_.size()) words_.reset();
  }
}

Status Team::Device::open() {
  CCOLL_TRY(number_devices());
  const BesideCaptures beside;
  std::vector<int> devices;
  for (const Gpu& gpu : gpus_) devices.push_back(gpu.device);
  CCOLL_TRY(reach_peers(devices));
  for (Gpu& gpu : gpus_) {
    const CurrentDevice current(gpu.device);
    CCOLL_TRY(current.status());
    CCOLL_TRY(open(gpu));
  }
  arrived_.resize(options_.ranks);
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    const CurrentDevice current(device_of(rank));
    CCOLL_TRY(put(make_event(), arrived_[rank]));
  }
  return {};
}

/// In the order of the first rank on each.
Status Team::Device::number_devices() {
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    const int device = options_.devices.empty() ? options_.device : options_.devices[rank];
    const auto known = std::ranges::find(gpus_, device, &Gpu::device);
    numbers_.push_back(static_cast<std::uint32_t>(known - gpus_.begin()));
    if (known == gpus_.end()) gpus_.emplace_back().device = device;
  }
  if (gpus_.size() <= kMostTeamDevices) return {};
  return fail(ErrorKind::unsupported, "a team on {} GPUs: at most {}", gpus_.size(),
              kMostTeamDevices);
}

Status Team::Device::open(Gpu& gpu) {
  const auto cooperative = attribute(cudaDevAttrCooperativeLaunch, gpu.device);
  CCOLL_TRY(cooperative);
  if (*cooperative == 0) {
    return fail(ErrorKind::unsupported, "GPU {} has no cooperative launches, which a team needs",
                gpu.device);
  }
  // Loaded lazily, a kernel could wait at its first launch for one that spins.
  for (const Family family :
       {Family::bits, Family::integers, Family::floats, Family::small_floats}) {
    cudaFuncAttributes ignored = {};
    CCOLL_TRY(cuda_status(cudaFuncGetAttributes(&ignored, kernel_of(family)),
                          "loading a team's kernels"));
  }
  CCOLL_TRY(put(make_stream(), gpu.launches));
  CCOLL_TRY(put(make_stream(), gpu.uploads));
  if (gpus_.size() > 1) CCOLL_TRY(put(make_stream(), gpu.captured_launches.emplace_back()));
  CCOLL_TRY(put(make_event(), gpu.finished));
  CCOLL_TRY(put(make_event(), gpu.captured));
  constexpr std::size_t kWords = kProgressAt + kMostProgress * sizeof(TeamProgress);
  if (!words_) {
    CCOLL_TRY(put(allocate_mapped(kWords), words_));
    std::memset(words_.get(), 0, kWords);
  }
  CCOLL_TRY(put(on_device(words_.get()), gpu.words));
  return zero_state(gpu);
}

Status Team::Device::zero_state(Gpu& gpu) const {
  constexpr std::size_t kTickets = kTicketsAt + kMostBlocks * sizeof(TeamTicket);
  constexpr std::size_t kFlags = std::size_t{kMostFlags} * kFlagWords * sizeof(std::uint64_t);
  CCOLL_TRY(put(allocate_on_device(kTickets), gpu.tickets));
  CCOLL_TRY(put(allocate_on_device(kFlags), gpu.flags));
  CCOLL_TRY(put(allocate_on_device(options_.workspace_bytes), gpu.workspace));
  constexpr const char* kWhat = "zeroing a team's flags";
  CCOLL_TRY(cuda_status(cudaMemsetAsync(gpu.tickets.get(), 0, kTickets, gpu.uploads.get()), kWhat));
  CCOLL_TRY(cuda_status(cudaMemsetAsync(gpu.flags.get(), 0, kFlags, gpu.uploads.get()), kWhat));
  return cuda_status(cudaStreamSynchronize(gpu.uploads.get()), kWhat);
}

Result<LoadedProgram*> Team::Device::load(const LoweredTeam& lowered) {
  const TeamProgram& program = lowered.program;
  if (lowered.workspace_bytes > options_.workspace_bytes || program.flag_count() > kMostFlags ||
      program.workspace != 2 * options_.ranks) {
    return fail(ErrorKind::unsupported,
                "a program of {} ranks that needs {} bytes of workspace and {} flags: this team "
                "has {} ranks, {} bytes and {} flags",
                program.workspace / 2, lowered.workspace_bytes, program.flag_count(),
                options_.ranks, options_.workspace_bytes, kMostFlags);
  }
  for (const TeamBlock& block : lowered.blocks) {
    if (block.device == numbers_[block.rank]) continue;
    return fail(ErrorKind::invalid_argument,
                "a program that has rank {} on the team's GPU number {}: it is on number {}",
                block.rank, block.device, numbers_[block.rank]);
  }
  const BesideCaptures beside;
  auto loaded = std::make_unique<LoadedProgram>();
  loaded->parts.resize(gpus_.size());
  loaded->blocks = lowered.blocks;
  if (are_wanted(options_.copies, lowered.copies)) loaded->copies = lowered.copies;
  if (program.block_count != 0) {
    loaded->kernel = kernel_of(family_of(program.type, program.op));
    loaded->shared_bytes = program.shared_words() * sizeof(std::uint64_t);
    if (loaded->shared_bytes > kMostSharedBytes) {
      return fail(ErrorKind::unsupported,
                  "a program whose blocks need {} bytes of shared memory: at most {} are there",
                  loaded->shared_bytes, kMostSharedBytes);
    }
    // What is refused has taken no memory, which CUDA would take back only behind all streams.
    for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
      const CurrentDevice current(gpus_[number].device);
      CCOLL_TRY(current.status());
      LoadedProgram::Part& part = loaded->parts[number];
      part.program = program;
      part.program.block_count = static_cast<std::uint32_t>(lowered.blocks_of(number).size());
      CCOLL_TRY(shape(part, *loaded, gpus_[number]));
    }
    for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
      const CurrentDevice current(gpus_[number].device);
      CCOLL_TRY(current.status());
      CCOLL_TRY(upload(loaded->parts[number], lowered, number));
    }
  }
  const std::lock_guard lock(mu_);
  return programs_.emplace_back(std::move(loaded)).get();
}

/// The most threads with which all blocks run at once.
Status Team::Device::shape(LoadedProgram::Part& part, const LoadedProgram& loaded,
                           const Gpu& gpu) const {
  std::uint32_t most = 0;
  for (std::uint32_t threads = options_.most_threads; threads >= 32; threads /= 2) {
    const auto at_once = blocks_at_once(loaded, gpu, threads);
    CCOLL_TRY(at_once);
    most = std::max(most, *at_once);
    if (part.program.block_count > *at_once) continue;
    part.threads = threads;
    return {};
  }
  return fail(ErrorKind::unsupported,
              "a program of {} blocks, which have to run at once: GPU {} runs {} at most{}",
              part.program.block_count, gpu.device, most,
              most != 0 && most == options_.most_blocks ? ", as told" : "");
}

Result<std::uint32_t> Team::Device::blocks_at_once(const LoadedProgram& loaded, const Gpu& gpu,
                                                   std::uint32_t threads) const {
  const auto processors = attribute(cudaDevAttrMultiProcessorCount, gpu.device);
  CCOLL_TRY(processors);
  int of_each = 0;
  CCOLL_TRY(
      cuda_status(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                      &of_each, loaded.kernel, static_cast<int>(threads), loaded.shared_bytes),
                  "asking how many blocks run at once"));
  const std::uint32_t most = options_.most_blocks == 0 ? kMostBlocks : options_.most_blocks;
  return std::min({kMostBlocks, most, static_cast<std::uint32_t>(of_each * *processors)});
}

Status Team::Device::upload(LoadedProgram::Part& part, const LoweredTeam& lowered,
                            std::uint32_t number) const {
  Lists lists;
  const auto own = lowered.blocks_of(number);
  const std::size_t blocks = lists.add(own), steps = lists.add(lowered.steps),
                    ends = lists.add(lowered.ends), parts = lists.add(lowered.parts),
                    channels = lists.add(lowered.channels);
  const auto& bytes = lists.bytes();
  CCOLL_TRY(put(allocate_on_device(bytes.size()), part.lists));
  std::byte* const there = part.lists.get();
  const cudaStream_t stream = gpus_[number].uploads.get();
  constexpr const char* kWhat = "copying a program to the GPU";
  CCOLL_TRY(cuda_status(
      cudaMemcpyAsync(there, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream), kWhat));
  CCOLL_TRY(cuda_status(cudaStreamSynchronize(stream), kWhat));
  part.program.blocks = reinterpret_cast<const TeamBlock*>(there + blocks);
  part.program.steps = reinterpret_cast<const TeamStep*>(there + steps);
  part.program.ends = reinterpret_cast<const TeamEnd*>(there + ends);
  part.program.parts = reinterpret_cast<const TeamPart*>(there + parts);
  part.program.channels = reinterpret_cast<const TeamChannel*>(there + channels);
  return {};
}

// A rank's stream is touched by the rank's own thread only, as it may be one of the thread's own
// (cudaStreamPerThread). A captured launch goes to the stream of the rank that arrived last,
// because a stream of the team's would be part of that capture until it ends. On other GPUs it is,
// for want of one of that thread's there, and the next capture has another one meanwhile.

Status Team::Device::arrive(TeamCall& call) {
  const CurrentDevice current(device_of(call.rank));
  CCOLL_TRY(current.status());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  CCOLL_TRY(cuda_status(cudaStreamGetCaptureInfo(call.stream, &status, &id),
                        fmt::format("asking whether rank {}'s stream is captured", call.rank)));
  call.capture = status == cudaStreamCaptureStatusNone ? 0 : id + 1;
  call.is_shut = call.program->lending_nothing != nullptr && !is_reached(call);
  return cuda_status(cudaEventRecord(arrived_[call.rank].get(), call.stream),
                     fmt::format("recording an event in rank {}'s stream", call.rank));
}

/// By all other GPUs.
bool Team::Device::is_reached(const TeamCall& call) const {
  std::vector<int> others;
  for (const Gpu& gpu : gpus_)
    if (gpu.device != device_of(call.rank)) others.push_back(gpu.device);
  return device::is_reached(call.input, others) && device::is_reached(call.output, others);
}

const LoadedProgram& Team::Device::fitting(std::span<const TeamCall> calls) const {
  const LoadedProgram& called = *calls[0].program;
  if (std::ranges::any_of(calls, &TeamCall::is_shut)) return *called.lending_nothing;
  const bool in_place = std::ranges::any_of(calls, &TeamCall::in_place);
  return in_place && called.in_place != nullptr ? *called.in_place : called;
}

Status Team::Device::launch(std::span<const TeamCall> calls, std::uint32_t last) {
  const bool is_captured = calls[0].capture != 0;
  const std::uint32_t home = is_captured ? numbers_[last] : 0;
  const auto streams = streams_for(calls, last);
  CCOLL_TRY(streams);
  for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
    const cudaStream_t stream = (*streams)[number];
    // Other GPUs have yet to hear that the call before has ended on all.
    if (!is_captured && number != home) {
      CCOLL_TRY(cuda_status(cudaStreamWaitEvent(stream, gpus_[home].finished.get(), 0),
                            "a team's launch waiting for the one before"));
    }
    for (const TeamCall& call : calls) {
      CCOLL_TRY(
          cuda_status(cudaStreamWaitEvent(stream, arrived_[call.rank].get(), 0),
                      fmt::format("a team's launch waiting for rank {}'s stream", call.rank)));
    }
  }
  const LoadedProgram& program = fitting(calls);
  bool is_copied = false;
  if (program.kernel != nullptr) CCOLL_TRY(put(make(program, calls, *streams), is_copied));
  if (is_copied) program.was_copied = calls[0].program->was_copied = true;
  {
    const std::lock_guard lock(mu_);
    home_ = home;
    if (!is_captured) {
      launched_ = &program;
      launched_copies_ = is_copied;
    }
  }
  return join(*streams, home, is_captured);
}

Result<bool> Team::Device::make(const LoadedProgram& program, std::span<const TeamCall> calls,
                                std::span<const cudaStream_t> streams) {
  ++launches_;
  // Between GPUs copies would depend on how these reach each other, which is only known of kernels.
  if (gpus_.size() == 1) {
    const CurrentDevice current(gpus_[0].device);
    CCOLL_TRY(current.status());
    const auto copies = copies_for(program.copies, arguments(program, calls, 0));
    if (!copies.empty()) return put_copies(copies, streams[0]).map([] { return true; });
  }
  CCOLL_TRY(launch_parts(program, calls, streams));
  return false;
}

/// By the GPUs' numbers, those that a call is launched on.
Result<std::vector<cudaStream_t>> Team::Device::streams_for(std::span<const TeamCall> calls,
                                                            std::uint32_t last) {
  std::vector<cudaStream_t> streams;
  for (Gpu& gpu : gpus_) streams.push_back(gpu.launches.get());
  const std::uint64_t capture = calls[0].capture;
  for (std::uint32_t number = 0; capture != 0 && number < gpus_.size(); ++number) {
    if (number == numbers_[last]) {
      streams[number] = calls[last].stream;
    } else {
      CCOLL_TRY(put(captured_stream(gpus_[number], capture), streams[number]));
    }
  }
  return streams;
}

/// One that is part of no other capture.
Result<cudaStream_t> Team::Device::captured_stream(Gpu& gpu, std::uint64_t capture) {
  for (const OwnStream& stream : gpu.captured_launches) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    CCOLL_TRY(cuda_status(cudaStreamGetCaptureInfo(stream.get(), &status, &id),
                          "asking whether a team's stream is captured"));
    const bool is_in_it = status == cudaStreamCaptureStatusActive && id + 1 == capture;
    if (status == cudaStreamCaptureStatusNone || is_in_it) return stream.get();
  }
  const CurrentDevice current(gpu.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  OwnStream stream;
  CCOLL_TRY(put(make_stream(), stream));
  return gpu.captured_launches.emplace_back(std::move(stream)).get();
}

Status Team::Device::launch_parts(const LoadedProgram& program, std::span<const TeamCall> calls,
                                  std::span<const cudaStream_t> streams) {
  for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
    const LoadedProgram::Part& part = program.parts[number];
    const CurrentDevice current(gpus_[number].device);
    Status launched = current.status();
    if (launched) {
      TeamLaunch launch = arguments(program, calls, number);
      void* each[] = {&launch};
      launched =
          cuda_status(cudaLaunchCooperativeKernel(program.kernel, dim3(part.program.block_count),
                                                  dim3(part.threads), each, program.shared_bytes,
                                                  streams[number]),
                      fmt::format("launching a team's {} blocks of {} threads on GPU {}",
                                  part.program.block_count, part.threads, gpus_[number].device));
    }
    if (launched) continue;
    if (number != 0 && !end_parts(number, calls[0].capture != 0))
      launched.error().message += "; buffers may still be written";
    return launched;
  }
  return {};
}

/// Of a call that only the first `count` GPUs have got: no rank's stream waits for it, and nothing
/// may rely on all having counted it. False where they have not ended.
bool Team::Device::end_parts(std::uint32_t count, bool is_captured) {
  is_even_ = false;
  abort();
  // A graph that lacks a part runs after the abort, and writes nothing.
  if (is_captured) return true;
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  bool have_ended = true;
  for (const Gpu& gpu : std::span(gpus_).first(count)) {
    const CurrentDevice current(gpu.device);
    if (cudaEventRecord(gpu.finished.get(), gpu.launches.get()) != cudaSuccess) return false;
    bool has_ended = false;
    while (!has_ended && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      has_ended = has_happened(gpu.finished, gpu.device).value_or(false);
    }
    have_ended = have_ended && has_ended;
  }
  return have_ended;
}

/// What comes behind the end on the GPU `home` comes behind that on all.
Status Team::Device::join(std::span<const cudaStream_t> streams, std::uint32_t home,
                          bool is_captured) const {
  constexpr const char* kWhat = "recording the end of a team's launch";
  for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
    if (number == home) continue;
    const OwnEvent& end = end_of(gpus_[number], is_captured);
    CCOLL_TRY(cuda_status(cudaEventRecord(end.get(), streams[number]), kWhat));
    CCOLL_TRY(cuda_status(cudaStreamWaitEvent(streams[home], end.get(), 0), kWhat));
  }
  return cuda_status(cudaEventRecord(end_of(gpus_[home], is_captured).get(), streams[home]), kWhat);
}

TeamLaunch Team::Device::arguments(const LoadedProgram& program, std::span<const TeamCall> calls,
                                   std::uint32_t number) const {
  TeamLaunch launch;
  launch.program = program.parts[number].program;
  launch.id = launches_;
  launch.state.claim = reinterpret_cast<TeamClaim*>(gpus_[number].tickets.get());
  launch.state.tickets = reinterpret_cast<TeamTicket*>(gpus_[number].tickets.get() + kTicketsAt);
  launch.state.ticket_count = kMostBlocks;
  for (const TeamCall& call : calls) {
    launch.buffers[2 * call.rank] = call.input;
    launch.buffers[2 * call.rank + 1] = call.output;
  }
  for (std::uint32_t each = 0; each < gpus_.size(); ++each) {
    launch.state.flags[each] = reinterpret_cast<std::uint64_t*>(gpus_[each].flags.get());
    launch.buffers[launch.program.workspace + each] = gpus_[each].workspace.get();
  }
  launch.abort = reinterpret_cast<std::uint64_t*>(gpus_[number].words);
  launch.busy = launch.abort + kBusyAt;
  launch.progress = reinterpret_cast<TeamProgress*>(gpus_[number].words + kProgressAt);
  return launch;
}

Status Team::Device::leave(const TeamCall& call) {
  const CurrentDevice current(device_of(call.rank));
  CCOLL_TRY(current.status());
  const std::uint32_t home = [this] {
    const std::lock_guard lock(mu_);
    return home_;
  }();
  const OwnEvent& event = end_of(gpus_[home], call.capture != 0);
  return cuda_status(cudaStreamWaitEvent(call.stream, event.get(), 0),
                     fmt::format("rank {}'s stream waiting for its team", call.rank));
}

void Team::Device::abort() {
  // Pairs with the kernels' relaxed looks: there is nothing else to be seen.
  store_relaxed(abort_word(), 1);
}

Result<bool> Team::Device::ended_by(TimePoint deadline) const {
  if (launched() == nullptr) return true;
  const CurrentDevice current(gpus_[0].device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  for (;;) {
    const cudaError_t error = cudaEventQuery(gpus_[0].finished.get());
    if (error == cudaSuccess) return true;
    if (error != cudaErrorNotReady) {
      return tl::unexpected(cuda_failure(error, "waiting for a team's launch"));
    }
    (void)cudaGetLastError();
    if (std::chrono::steady_clock::now() >= deadline) return false;
    // CUDA has no wait with a limit.
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

const LoadedProgram* Team::Device::launched() const {
  const std::lock_guard lock(mu_);
  return launched_;
}

std::string Team::Device::standing() const {
  {
    const std::lock_guard lock(mu_);
    if (launched_copies_) return "the last one's copies are not all made";
  }
  return standing_blocks(launched());
}

Status Team::Device::finished(const LoadedProgram* program) const {
  if (program != nullptr && program->was_copied) {
    // Copies are made whatever has been aborted, also of what that has left undone.
    if (load_relaxed(abort_word()) == 0) return {};
    return fail(ErrorKind::aborted, "a call that may be by copies ended after an abort");
  }
  const auto standing = standing_blocks(program);
  return standing.empty() ? Status() : fail(ErrorKind::aborted, "{}", standing);
}

std::string Team::Device::standing_blocks(const LoadedProgram* program) const {
  std::vector<std::string> standing;
  const std::size_t blocks = program == nullptr ? 0 : program->blocks.size();
  for (std::size_t i = 0; i < blocks && standing.size() < 4; ++i) {
    const TeamProgress& at = progress()[i];
    const auto ending = static_cast<TeamEnding>(load_acquire(&at.ending));
    if (ending == TeamEnding::finished) continue;
    standing.push_back(fmt::format("rank {}'s lane {} {} after {} steps of call {}",
                                   program->blocks[i].rank, program->blocks[i].lane,
                                   ending == TeamEnding::aborted ? "aborted" : "not ended",
                                   load_relaxed(&at.steps), load_relaxed(&at.call)));
  }
  return joined(standing);
}

Result<std::unique_ptr<Team>> Team::make(const TeamOptions& options) {
  if (options.ranks == 0 || options.ranks > kMostTeamRanks || options.most_threads < 32 ||
      options.most_threads > kMostTeamThreads || options.most_threads % 32 != 0) {
    return fail(ErrorKind::invalid_argument,
                "a team of {} ranks with {} threads per block: expected 1 to {} ranks, and a "
                "multiple of 32 threads up to {}",
                options.ranks, options.most_threads, kMostTeamRanks, kMostTeamThreads);
  }
  if (!options.devices.empty() && options.devices.size() != options.ranks) {
    return fail(ErrorKind::invalid_argument,
                "the GPUs of {} of a team's {} ranks: expected are those of all, or none",
                options.devices.size(), options.ranks);
  }
  auto device = std::make_unique<Device>(options);
  CCOLL_TRY(device->open());
  return std::unique_ptr<Team>(new Team(std::move(device), options.ranks));
}

Team::Team(std::unique_ptr<Device> device, std::uint32_t ranks)
    : ranks_(ranks),
      device_(std::move(device)),
      meeting_(std::make_unique<TeamMeeting>(ranks, *device_)) {}

Team::~Team() = default;

Status Team::arrive(const TeamCall& call) {
  (void)ended();
  return meeting_->arrive(call);
}

std::optional<Failure> Team::ended() const {
  if (device_->was_busy()) {
    meeting_->abort({ErrorKind::aborted,
                     "a call of a team found another one under way on the device: a graph must not "
                     "run beside another call of the same team",
                     std::nullopt});
  }
  return meeting_->ended();
}

Result<const LoadedProgram*> Team::load(const LoweredTeam& lowered) {
  return device_->load(lowered);
}

Result<const LoadedProgram*> Team::load(const LoweredTeam& separate, const LoweredTeam& in_place,
                                        const LoweredTeam* lending_nothing) {
  auto loaded = device_->load(separate);
  if (!loaded) return tl::unexpected(std::move(loaded.error()));
  if (std::ranges::count(separate.steps, true, &TeamStep::lends) !=
      std::ranges::count(in_place.steps, true, &TeamStep::lends)) {
    auto beside = device_->load(in_place);
    if (!beside) return tl::unexpected(std::move(beside.error()));
    (*loaded)->in_place = *beside;
  }
  if (lending_nothing != nullptr) {
    auto beside = device_->load(*lending_nothing);
    if (!beside) return tl::unexpected(std::move(beside.error()));
    (*loaded)->lending_nothing = *beside;
  }
  return *loaded;
}

const std::vector<std::uint32_t>& Team::device_numbers() const { return device_->numbers(); }

bool Team::renew() {
  const auto ended = device_->ended_by(std::chrono::steady_clock::now());
  if (!ended || !*ended || !device_->is_even()) return false;
  device_->forget_abort();
  meeting_ = std::make_unique<TeamMeeting>(ranks_, *device_);
  return true;
}

Status Team::wait(TimePoint deadline) {
  auto ended = device_->ended_by(deadline);
  if (!ended) {
    meeting_->abort(ended.error());
    return tl::unexpected(std::move(ended.error()));
  }
  if (*ended) return check(device_->launched());
  Failure late{ErrorKind::timed_out, "a team's calls have not ended in time", std::nullopt};
  if (const auto standing = device_->standing(); !standing.empty()) late.message += ": " + standing;
  meeting_->abort(late);
  ended = device_->ended_by(std::chrono::steady_clock::now() + kGrace);
  if (!ended || !*ended) {
    late.message += fmt::format(
        "; its kernels have not ended {} s after they were told to: buffers may still be written",
        kGrace.count());
  }
  return tl::unexpected(std::move(late));
}

Status Team::check(const LoadedProgram* program) const {
  const Status finished = device_->finished(program);
  (void)ended();
  if (finished) return {};
  if (auto cause = meeting_->broken()) return tl::unexpected(std::move(*cause));
  return finished;
}

}  // namespace ccoll::device
