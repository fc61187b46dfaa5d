// SPDX-License-Identifier: Apache-2.0
#include "gpu/team/team_device.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "core/text.hpp"
#include "gpu/cuda/peers.hpp"
#include "gpu/team/copy_engines.hpp"

namespace ccoll::device {

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
    if (number + 1 == gpus_.size()) words_.reset();
  }
  give_room_back();
}

Status Team::Device::open() {
  CCOLL_TRY(number_devices());
  const BesideCaptures beside;
  std::vector<int> devices;
  for (const Gpu& gpu : gpus_) devices.push_back(gpu.device);
  CCOLL_TRY(reach_peers(devices));
  can_copy_ = devices.size() == 1 ||
              (options_.copies != CopyUse::never && reach_by_copies(devices).has_value());
  for (Gpu& gpu : gpus_) {
    const CurrentDevice current(gpu.device);
    CCOLL_TRY(current.status());
    CCOLL_TRY(open(gpu));
    shared_.lock()->list_bytes.push_back(gpu.lists.bytes());
  }
  arrived_.resize(options_.ranks);
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    const CurrentDevice current(device_of(rank));
    CCOLL_TRY(put(make_event(), arrived_[rank]));
  }
  return {};
}

/// Numbers the GPUs in the order of the first rank on each.
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
  CCOLL_TRY(load_team_kernels(gpu.device));
  CCOLL_TRY(load_copy_kernels());
  CCOLL_TRY(choose_threads(gpu));
  CCOLL_TRY(put(make_stream(), gpu.launches));
  CCOLL_TRY(put(make_stream(), gpu.uploads));
  if (gpus_.size() > 1) {
    CCOLL_TRY(put(make_stream(), gpu.captured_launches.emplace_back()));
    CCOLL_TRY(put(make_event(), gpu.sent));
  }
  CCOLL_TRY(put(make_event(), gpu.finished));
  CCOLL_TRY(put(make_event(), gpu.captured));
  CCOLL_TRY(gpu.lists.open());
  constexpr std::size_t kWords = kProgressAt + kMostTeamProgress * sizeof(TeamProgress);
  if (!words_) {
    CCOLL_TRY(put(allocate_mapped(kWords), words_));
    std::memset(words_.get(), 0, kWords);
  }
  CCOLL_TRY(put(on_device(words_.get()), gpu.words));
  return zero_state(gpu);
}

Status Team::Device::zero_state(Gpu& gpu) const {
  CCOLL_TRY(put(TeamTurns::make(gpu.uploads.get()), gpu.turns));
  CCOLL_TRY(put(allocate_on_device(kStateBytes), gpu.flags));
  CCOLL_TRY(put(allocate_on_device(options_.workspace_bytes), gpu.workspace));
  constexpr const char* kWhat = "zeroing a team's flags";
  CCOLL_TRY(
      cuda_status(cudaMemsetAsync(gpu.flags.get(), 0, kStateBytes, gpu.uploads.get()), kWhat));
  return cuda_status(cudaStreamSynchronize(gpu.uploads.get()), kWhat);
}

// Only the rank's own thread touches its stream, which may be one of the thread's own
// (cudaStreamPerThread). A captured launch goes to the stream of the rank that arrived last,
// because a stream of the team's would be part of that capture until it ends. On other GPUs that
// thread has no stream, so one of the team's serves, and the next capture takes another.

Status Team::Device::arrive(TeamCall& call) {
  const CurrentDevice current(device_of(call.rank));
  CCOLL_TRY(current.status());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  CCOLL_TRY(cuda_status(cudaStreamGetCaptureInfo(call.stream, &status, &id), [&] {
    return fmt::format("asking whether rank {}'s stream is captured", call.rank);
  }));
  call.capture = status == cudaStreamCaptureStatusNone ? 0 : id + 1;
  return cuda_status(cudaEventRecord(arrived_[call.rank].get(), call.stream), [&] {
    return fmt::format("recording an event in rank {}'s stream", call.rank);
  });
}

/// Whether all other GPUs reach each rank's buffers.
bool Team::Device::are_reached(std::span<const TeamCall> calls) const {
  return std::ranges::all_of(calls, [this](const TeamCall& call) {
    std::vector<int> others;
    for (const Gpu& gpu : gpus_)
      if (gpu.device != device_of(call.rank)) others.push_back(gpu.device);
    const CurrentDevice current(device_of(call.rank));
    return current.status() && is_reached(call.input, others) && is_reached(call.output, others);
  });
}

const LoadedProgram& Team::Device::fitting(std::span<const TeamCall> calls) const {
  const LoadedProgram* fits = calls[0].program;
  if (fits->in_place != nullptr && std::ranges::any_of(calls, &TeamCall::in_place))
    fits = fits->in_place;
  if (fits->lending_nothing != nullptr && !are_reached(calls)) fits = fits->lending_nothing;
  return *fits;
}

Status Team::Device::launch(std::span<const TeamCall> calls, std::uint32_t last) {
  const bool is_captured = calls[0].capture != 0;
  const std::uint32_t home = is_captured ? numbers_[last] : 0;
  const auto streams = streams_for(calls, last);
  CCOLL_TRY(streams);
  for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
    const cudaStream_t stream = (*streams)[number];
    // The other GPUs have yet to hear that the call before has ended on all.
    if (!is_captured && number != home) {
      CCOLL_TRY(cuda_status(cudaStreamWaitEvent(stream, gpus_[home].finished.get(), 0),
                            "a team's launch waiting for the one before"));
    }
    for (const TeamCall& call : calls) {
      CCOLL_TRY(cuda_status(cudaStreamWaitEvent(stream, arrived_[call.rank].get(), 0), [&] {
        return fmt::format("a team's launch waiting for rank {}'s stream", call.rank);
      }));
    }
  }
  const LoadedProgram& program = fitting(calls);
  bool is_copied = false;
  if (program.kernel.function != nullptr) CCOLL_TRY(put(make(program, calls, *streams), is_copied));
  if (is_copied) program.was_copied = calls[0].program->was_copied = true;
  {
    const auto shared = shared_.lock();
    shared->home = home;
    if (!is_captured) {
      shared->launched = &program;
      shared->launched_copies = is_copied;
    }
  }
  return join(*streams, home, is_captured);
}

Result<bool> Team::Device::make(const LoadedProgram& program, std::span<const TeamCall> calls,
                                std::span<const cudaStream_t> streams) {
  ++launches_;
  const auto is_copied = copy(program, calls, streams);
  if (!is_copied || *is_copied) return is_copied;
  CCOLL_TRY(launch_parts(program, calls, streams));
  return false;
}

/// The streams that a call is launched on, by the GPUs' numbers.
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

/// A stream that is part of no other capture.
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
    const ProgramPart& part = program.parts[number];
    const CurrentDevice current(gpus_[number].device);
    Status launched = current.status();
    if (launched) {
      TeamLaunch launch = arguments(program, calls, number);
      void* each[] = {&launch};
      launched =
          cuda_status(cudaLaunchCooperativeKernel(
                          program.kernel.function, dim3(part.program.block_count),
                          dim3(part.threads), each, program.kernel.shared_bytes, streams[number]),
                      [&] { return launching(part, gpus_[number].device); });
    }
    if (launched) continue;
    if (number != 0 && !end_parts(number, calls[0].capture != 0))
      launched.error().message += "; buffers may still be written";
    return launched;
  }
  return {};
}

/// Ends a call that only the first `count` GPUs have got. No rank's stream waits for it, and
/// nothing may rely on all having counted it, or on their claims being given back. False if it has
/// not ended on all of them.
bool Team::Device::end_parts(std::uint32_t count, bool is_captured) {
  is_even_ = false;
  abort();
  // A graph that lacks a part runs after the abort: its kernels write nothing.
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

/// Work behind the end on the GPU `home` comes behind the end on all GPUs.
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
  gpus_[number].turns.put_in(launch.state);
  for (const TeamCall& call : calls) {
    launch.buffers[2 * call.rank] = call.input;
    launch.buffers[2 * call.rank + 1] = call.output;
  }
  for (std::uint32_t each = 0; each < gpus_.size(); ++each) {
    launch.state.flags[each] = reinterpret_cast<std::uint64_t*>(gpus_[each].flags.get());
    launch.state.words[each] =
        reinterpret_cast<std::uint64_t*>(gpus_[each].flags.get() + kFlagBytes);
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
  const std::uint32_t home = shared_.lock()->home;
  const OwnEvent& event = end_of(gpus_[home], call.capture != 0);
  return cuda_status(cudaStreamWaitEvent(call.stream, event.get(), 0), [&] {
    return fmt::format("rank {}'s stream waiting for its team", call.rank);
  });
}

void Team::Device::abort() {
  // Pairs with the kernels' relaxed loads: the word is all that they read.
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

const LoadedProgram* Team::Device::launched() const { return shared_.lock()->launched; }

std::uint64_t Team::Device::held_bytes(std::uint32_t rank) const {
  const std::uint64_t lists = shared_.lock()->list_bytes[numbers_[rank]];
  return kStateBytes + options_.workspace_bytes + TeamTurns::bytes() + lists;
}

std::string Team::Device::standing() const {
  if (shared_.lock()->launched_copies) return "the last call has unfinished copies";
  return standing(launched());
}

Status Team::Device::finished(const LoadedProgram* program) const {
  if (program != nullptr && program->was_copied) {
    // Copies are made even after an abort, also of data that the abort has left incomplete.
    if (load_relaxed(abort_word()) == 0) return {};
    return fail(ErrorKind::aborted, "a call that may be by copies ended after an abort");
  }
  const auto left = standing(program);
  return left.empty() ? Status() : fail(ErrorKind::aborted, "{}", left);
}

std::string Team::Device::standing(const LoadedProgram* program) const {
  return program == nullptr ? std::string() : standing_blocks(program->blocks, progress());
}

}  // namespace ccoll::device
