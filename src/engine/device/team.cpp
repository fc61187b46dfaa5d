// SPDX-License-Identifier: Apache-2.0
#include "engine/device/team.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "engine/device/cuda.hpp"
#include "kernels/device/combine.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {

struct LoadedProgram {
  TeamProgram program;            ///< its lists are in `lists`
  std::vector<TeamBlock> blocks;  ///< for messages
  DeviceMemory lists;
  const void* kernel = nullptr;
  std::uint32_t threads = 0;
  std::size_t shared_bytes = 0;
  const LoadedProgram* in_place = nullptr;  ///< what serves in its place where buffers are so
};

namespace {

constexpr std::uint32_t kMostFlags = 32768;
constexpr std::uint32_t kMostBlocks = 2048;
/// What a kernel has without asking for more.
constexpr std::size_t kMostSharedBytes = 48 << 10;
/// The abort word has a line of memory to itself.
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
  /// Whether all blocks have finished, and else where they stand.
  Status finished(const LoadedProgram* program) const;
  const LoadedProgram* launched() const;

  Status arrive(TeamCall& call) override;
  Status launch(std::span<const TeamCall> calls, std::uint32_t last) override;
  Status leave(const TeamCall& call) override;
  void abort() override;
  /// Once what was launched has ended.
  void forget_abort() { store_relaxed(abort_word(), 0); }

 private:
  /// What is given back while `options_.device` is the current one.
  struct Resources {
    OwnStream launches, uploads;
    std::vector<OwnEvent> arrived;  ///< by rank
    OwnEvent finished;              ///< recorded on `launches`
    OwnEvent captured;              ///< recorded in a graph
    DeviceMemory tickets, flags, workspace;
    MappedMemory words;  ///< the abort word, then at kProgressAt the blocks' progress
    std::vector<std::unique_ptr<LoadedProgram>> programs;
  };

  Status open_streams();
  Status zero_state();
  Status upload(LoadedProgram& loaded, const LoweredTeam& lowered);
  Status shape(LoadedProgram& loaded) const;
  Result<std::uint32_t> blocks_at_once(const LoadedProgram& loaded, std::uint32_t threads) const;
  TeamLaunch arguments(const LoadedProgram& program, std::span<const TeamCall> calls) const;
  std::uint64_t* abort_word() const {
    return reinterpret_cast<std::uint64_t*>(resources_.words.get());
  }
  TeamProgress* progress() const {
    return reinterpret_cast<TeamProgress*>(resources_.words.get() + kProgressAt);
  }

  const TeamOptions options_;
  Resources resources_;                      // but for `programs`, immutable after open()
  std::byte* words_on_device_ = nullptr;     // immutable after open()
  mutable std::mutex mu_;                    // also guards resources_.programs
  const LoadedProgram* launched_ = nullptr;  // guarded by mu_; the last one, not by graphs
};

Team::Device::~Device() {
  const CurrentDevice current(options_.device);
  const BesideCaptures beside;
  if (resources_.launches) cudaStreamSynchronize(resources_.launches.get());
  resources_ = {};
}

Status Team::Device::open() {
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  const auto cooperative = attribute(cudaDevAttrCooperativeLaunch, options_.device);
  CCOLL_TRY(cooperative);
  if (*cooperative == 0) {
    return fail(ErrorKind::unsupported, "GPU {} has no cooperative launches, which a team needs",
                options_.device);
  }
  // Loaded lazily, a kernel could wait at its first launch for one that spins.
  for (const Family family :
       {Family::bits, Family::integers, Family::floats, Family::small_floats}) {
    cudaFuncAttributes ignored = {};
    CCOLL_TRY(cuda_status(cudaFuncGetAttributes(&ignored, kernel_of(family)),
                          "loading a team's kernels"));
  }
  CCOLL_TRY(open_streams());
  return zero_state();
}

Status Team::Device::open_streams() {
  Resources& to = resources_;
  CCOLL_TRY(put(make_stream(), to.launches));
  CCOLL_TRY(put(make_stream(), to.uploads));
  CCOLL_TRY(put(make_event(), to.finished));
  CCOLL_TRY(put(make_event(), to.captured));
  to.arrived.resize(options_.ranks);
  for (OwnEvent& event : to.arrived) CCOLL_TRY(put(make_event(), event));
  return {};
}

Status Team::Device::zero_state() {
  constexpr std::size_t kTickets = kMostBlocks * sizeof(TeamTicket);
  constexpr std::size_t kFlags = std::size_t{kMostFlags} * kFlagWords * sizeof(std::uint64_t);
  constexpr std::size_t kWords = kProgressAt + kMostBlocks * sizeof(TeamProgress);
  Resources& to = resources_;
  CCOLL_TRY(put(allocate_on_device(kTickets), to.tickets));
  CCOLL_TRY(put(allocate_on_device(kFlags), to.flags));
  CCOLL_TRY(put(allocate_on_device(options_.workspace_bytes), to.workspace));
  CCOLL_TRY(put(allocate_mapped(kWords), to.words));
  CCOLL_TRY(put(on_device(to.words.get()), words_on_device_));
  std::memset(to.words.get(), 0, kWords);
  constexpr const char* kWhat = "zeroing a team's flags";
  CCOLL_TRY(cuda_status(cudaMemsetAsync(to.tickets.get(), 0, kTickets, to.uploads.get()), kWhat));
  CCOLL_TRY(cuda_status(cudaMemsetAsync(to.flags.get(), 0, kFlags, to.uploads.get()), kWhat));
  return cuda_status(cudaStreamSynchronize(to.uploads.get()), kWhat);
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
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  auto loaded = std::make_unique<LoadedProgram>();
  loaded->program = program;
  loaded->blocks = lowered.blocks;
  if (program.block_count != 0) {
    CCOLL_TRY(shape(*loaded));
    CCOLL_TRY(upload(*loaded, lowered));
  }
  const std::lock_guard lock(mu_);
  return resources_.programs.emplace_back(std::move(loaded)).get();
}

/// The most threads with which all blocks run at once.
Status Team::Device::shape(LoadedProgram& loaded) const {
  const TeamProgram& program = loaded.program;
  loaded.kernel = kernel_of(family_of(program.type, program.op));
  loaded.shared_bytes = program.shared_words() * sizeof(std::uint64_t);
  if (loaded.shared_bytes > kMostSharedBytes) {
    return fail(ErrorKind::unsupported,
                "a program whose blocks need {} bytes of shared memory: at most {} are there",
                loaded.shared_bytes, kMostSharedBytes);
  }
  std::uint32_t most = 0;
  for (std::uint32_t threads = options_.most_threads; threads >= 32; threads /= 2) {
    const auto at_once = blocks_at_once(loaded, threads);
    CCOLL_TRY(at_once);
    most = std::max(most, *at_once);
    if (program.block_count > *at_once) continue;
    loaded.threads = threads;
    return {};
  }
  return fail(ErrorKind::unsupported,
              "a program of {} blocks, which have to run at once: GPU {} runs {} at most",
              program.block_count, options_.device, most);
}

Result<std::uint32_t> Team::Device::blocks_at_once(const LoadedProgram& loaded,
                                                   std::uint32_t threads) const {
  const auto processors = attribute(cudaDevAttrMultiProcessorCount, options_.device);
  CCOLL_TRY(processors);
  int of_each = 0;
  CCOLL_TRY(
      cuda_status(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                      &of_each, loaded.kernel, static_cast<int>(threads), loaded.shared_bytes),
                  "asking how many blocks run at once"));
  return std::min(kMostBlocks, static_cast<std::uint32_t>(of_each * *processors));
}

Status Team::Device::upload(LoadedProgram& loaded, const LoweredTeam& lowered) {
  Lists lists;
  const std::size_t blocks = lists.add(lowered.blocks), steps = lists.add(lowered.steps),
                    ends = lists.add(lowered.ends), parts = lists.add(lowered.parts),
                    channels = lists.add(lowered.channels);
  const auto& bytes = lists.bytes();
  CCOLL_TRY(put(allocate_on_device(bytes.size()), loaded.lists));
  std::byte* const there = loaded.lists.get();
  const cudaStream_t stream = resources_.uploads.get();
  constexpr const char* kWhat = "copying a program to the GPU";
  CCOLL_TRY(cuda_status(
      cudaMemcpyAsync(there, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream), kWhat));
  CCOLL_TRY(cuda_status(cudaStreamSynchronize(stream), kWhat));
  loaded.program.blocks = reinterpret_cast<const TeamBlock*>(there + blocks);
  loaded.program.steps = reinterpret_cast<const TeamStep*>(there + steps);
  loaded.program.ends = reinterpret_cast<const TeamEnd*>(there + ends);
  loaded.program.parts = reinterpret_cast<const TeamPart*>(there + parts);
  loaded.program.channels = reinterpret_cast<const TeamChannel*>(there + channels);
  return {};
}

// A rank's stream is touched by the rank's own thread only, as it may be one of the thread's own
// (cudaStreamPerThread). A captured launch goes to one of the ranks' streams, because the team's
// would then be part of that capture until it ends.

Status Team::Device::arrive(TeamCall& call) {
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  CCOLL_TRY(cuda_status(cudaStreamGetCaptureInfo(call.stream, &status, &id),
                        fmt::format("asking whether rank {}'s stream is captured", call.rank)));
  call.capture = status == cudaStreamCaptureStatusNone ? 0 : id + 1;
  return cuda_status(cudaEventRecord(resources_.arrived[call.rank].get(), call.stream),
                     fmt::format("recording an event in rank {}'s stream", call.rank));
}

Status Team::Device::launch(std::span<const TeamCall> calls, std::uint32_t last) {
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const bool is_captured = calls[0].capture != 0;
  const cudaStream_t stream = is_captured ? calls[last].stream : resources_.launches.get();
  for (const TeamCall& call : calls) {
    CCOLL_TRY(cuda_status(cudaStreamWaitEvent(stream, resources_.arrived[call.rank].get(), 0),
                          fmt::format("a team's launch waiting for rank {}'s stream", call.rank)));
  }
  const bool in_place = std::ranges::any_of(calls, &TeamCall::in_place);
  const auto* const beside = calls[0].program->in_place;
  const LoadedProgram& program = in_place && beside != nullptr ? *beside : *calls[0].program;
  if (program.kernel != nullptr) {
    TeamLaunch launch = arguments(program, calls);
    void* each[] = {&launch};
    CCOLL_TRY(cuda_status(
        cudaLaunchCooperativeKernel(program.kernel, dim3(program.program.block_count),
                                    dim3(program.threads), each, program.shared_bytes, stream),
        fmt::format("launching a team's {} blocks of {} threads", program.program.block_count,
                    program.threads)));
  }
  if (!is_captured) {
    const std::lock_guard lock(mu_);
    launched_ = &program;
  }
  const OwnEvent& event = is_captured ? resources_.captured : resources_.finished;
  return cuda_status(cudaEventRecord(event.get(), stream), "recording the end of a team's launch");
}

TeamLaunch Team::Device::arguments(const LoadedProgram& program,
                                   std::span<const TeamCall> calls) const {
  TeamLaunch launch;
  launch.program = program.program;
  launch.state.tickets = reinterpret_cast<TeamTicket*>(resources_.tickets.get());
  launch.state.flags[0] = reinterpret_cast<std::uint64_t*>(resources_.flags.get());
  launch.state.ticket_count = kMostBlocks;
  for (const TeamCall& call : calls) {
    launch.buffers[2 * call.rank] = call.input;
    launch.buffers[2 * call.rank + 1] = call.output;
  }
  launch.buffers[launch.program.workspace] = resources_.workspace.get();
  launch.abort = reinterpret_cast<const std::uint64_t*>(words_on_device_);
  launch.progress = reinterpret_cast<TeamProgress*>(words_on_device_ + kProgressAt);
  return launch;
}

Status Team::Device::leave(const TeamCall& call) {
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const OwnEvent& event = call.capture != 0 ? resources_.captured : resources_.finished;
  return cuda_status(cudaStreamWaitEvent(call.stream, event.get(), 0),
                     fmt::format("rank {}'s stream waiting for its team", call.rank));
}

void Team::Device::abort() {
  // Pairs with the kernels' relaxed looks: there is nothing else to be seen.
  store_relaxed(abort_word(), 1);
}

Result<bool> Team::Device::ended_by(TimePoint deadline) const {
  if (launched() == nullptr) return true;
  const CurrentDevice current(options_.device);
  CCOLL_TRY(current.status());
  const BesideCaptures beside;
  for (;;) {
    const cudaError_t error = cudaEventQuery(resources_.finished.get());
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

Status Team::Device::finished(const LoadedProgram* program) const {
  std::vector<std::string> standing;
  const std::size_t blocks = program == nullptr ? 0 : program->program.block_count;
  for (std::size_t i = 0; i < blocks && standing.size() < 4; ++i) {
    const TeamProgress& at = progress()[i];
    const auto ending = static_cast<TeamEnding>(load_acquire(&at.ending));
    if (ending == TeamEnding::finished) continue;
    standing.push_back(fmt::format("rank {}'s lane {} {} after {} steps of call {}",
                                   program->blocks[i].rank, program->blocks[i].lane,
                                   ending == TeamEnding::aborted ? "aborted" : "not ended",
                                   load_relaxed(&at.steps), load_relaxed(&at.call)));
  }
  if (standing.empty()) return {};
  return fail(ErrorKind::aborted, "{}", joined(standing));
}

Result<std::unique_ptr<Team>> Team::make(const TeamOptions& options) {
  if (options.ranks == 0 || options.ranks > kMostTeamRanks || options.most_threads < 32 ||
      options.most_threads > kMostTeamThreads || options.most_threads % 32 != 0) {
    return fail(ErrorKind::invalid_argument,
                "a team of {} ranks with {} threads per block: expected 1 to {} ranks, and a "
                "multiple of 32 threads up to {}",
                options.ranks, options.most_threads, kMostTeamRanks, kMostTeamThreads);
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

Result<const LoadedProgram*> Team::load(const LoweredTeam& lowered) {
  return device_->load(lowered);
}

Result<const LoadedProgram*> Team::load(const LoweredTeam& separate, const LoweredTeam& in_place) {
  auto loaded = device_->load(separate);
  if (!loaded) return tl::unexpected(std::move(loaded.error()));
  if (std::ranges::count(separate.steps, true, &TeamStep::lends) !=
      std::ranges::count(in_place.steps, true, &TeamStep::lends)) {
    auto beside = device_->load(in_place);
    if (!beside) return tl::unexpected(std::move(beside.error()));
    (*loaded)->in_place = *beside;
  }
  return *loaded;
}

bool Team::renew() {
  const auto ended = device_->ended_by(std::chrono::steady_clock::now());
  if (!ended || !*ended) return false;
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
  if (const Status standing = device_->finished(device_->launched()); !standing) {
    late.message += ": " + standing.error().message;
  }
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
  if (finished) return {};
  if (auto cause = meeting_->broken()) return tl::unexpected(std::move(*cause));
  return finished;
}

}  // namespace ccoll::device
