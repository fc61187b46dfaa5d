// SPDX-License-Identifier: Apache-2.0

/// Kernels of teams, whose blocks wait for each other, and their faults.

#include <algorithm>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/kernel/claim.hpp"
#include "gpu/kernel/team_kernel.hpp"
#include "support/gpu/cuda_on_host/kernels.hpp"
#include "support/gpu/cuda_on_host/memory.hpp"
#include "support/gpu/cuda_on_host/streams.hpp"
#include "support/gpu/team_on_host.hpp"

namespace ccoll::testing::cuda {

using namespace device;

namespace {

std::atomic<int> team_kernels_launched = 0, team_kernels_by_words = 0;
std::atomic<bool> holds_kernels = false, holds_graphs = false;
std::atomic<int> held_kernels = 0;

/// Acts as if some of the call's blocks were running, until told to end.
void hold(const TeamLaunch& call, const std::atomic<bool>& holds) {
  std::uint64_t* const owner = &call.state.claim->owner;
  while (!exchange_if(owner, 0, 2 * call.id)) relax();
  for (std::uint32_t i = 0; i < call.program.block_count; ++i)
    store_relaxed(&call.progress[call.program.blocks[i].number].ending, 0);
  ++held_kernels;
  while (holds && load_relaxed(call.abort) == 0) relax();
  --held_kernels;
  store_release(owner, 0);
}

/// Whether another process launches the device's kernels.
bool is_others(const TeamLaunch& call, std::uint32_t device) {
  return call.state.awaited_devices != 0 && device != call.program.blocks[0].device;
}

using OfDevices = std::uint64_t* (&)[kMostTeamDevices];
void keep_from_others(const TeamLaunch& call, OfDevices what) {
  static auto& nowhere = *new std::vector<std::uint64_t>(kTeamWords);
  for (std::uint32_t i = 0; i < call.state.awaited_devices; ++i)
    if (is_others(call, i)) what[i] = nowhere.data();
}

/// Delivers only the half of each word that names the call; the half with data never arrives.
class Halved {
 public:
  explicit Halved(TeamLaunch& call) {
    for (std::uint32_t i = 0; i < call.state.awaited_devices; ++i) {
      if (!is_others(call, i)) continue;
      auto& from = kept_.emplace_back(kTeamWords);
      there_.push_back(std::exchange(call.state.words[i], from.data()));
    }
    bringing_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) bring();
      bring();
    });
  }

 private:
  void bring() {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      for (std::size_t word = 0; word < kTeamWords; ++word) {
        const std::uint64_t written = load_relaxed(&kept_[i][word]);
        auto* const halves = reinterpret_cast<std::uint32_t*>(&there_[i][word]);
        if (written != 0) store_relaxed(&halves[1], static_cast<std::uint32_t>(written >> 32));
      }
    }
  }
  std::vector<std::vector<std::uint64_t>> kept_;
  std::vector<std::uint64_t*> there_;
  std::jthread bringing_;
};

/// Corrupts one bit of its own output, as if it had written that bit wrong for others.
void garble(const TeamLaunch& call) {
  const std::uint32_t own = call.program.blocks[0].device;
  if (call.state.awaited_devices != 0) call.buffers[2 * own + 1][0] ^= std::byte{1};
}

void run_team(TeamLaunch call) {
  std::optional<Halved> halved;
  if (call.program.by_words && has_fault("halved")) halved.emplace(call);
  run_on_host(call, 1);
}

/// Checks all memory that a device's blocks of a team read and write.
void check_team_reach(int device, const TeamLaunch& call) {
  const TeamProgram& program = call.program;
  const auto check_parts = [&](Range parts) {
    for (std::uint32_t i = parts.begin; i < parts.end; ++i)
      check_reach(device, call.buffers[program.parts[i].buffer]);
  };
  const auto check_ends = [&](Range ends) {
    for (std::uint32_t i = ends.begin; i < ends.end; ++i) {
      const TeamChannel& channel = program.channels[program.ends[i].channel];
      check_parts(program.ends[i].lent);
      check_reach(device, call.buffers[program.workspace + channel.to]);
      check_reach(device, call.state.flags[channel.to]);
      check_reach(device, call.state.flags[channel.from]);
      check_reach(device, call.state.words[channel.to]);
    }
  };
  check_reach(device, call.state.tickets);
  // Buffers that other ranks may lend.
  for (std::uint32_t i = 0; i < call.state.awaited_devices * kLoanPlaces; ++i) {
    const LoanPlace* const place = call.loans.places + i;
    if (load_acquire(&place->number) != 0)
      check_reach(device, reinterpret_cast<const void*>(load_relaxed(&place->address)));
  }
  for (std::uint32_t i = 0; i < call.state.awaited_devices; ++i)
    check_reach(device, call.state.flags[i]);
  for (const void* list : std::initializer_list<const void*>{
           program.blocks, program.steps, program.ends, program.parts, program.channels})
    if (find(on_device, list) != nullptr && find(on_device, list)->device != device)
      broken_by = cudaErrorIllegalAddress;
  for (std::uint32_t number = 0; number < program.block_count; ++number) {
    const Range steps = program.blocks[number].steps;
    for (std::uint32_t i = steps.begin; i < steps.end; ++i) {
      check_parts(program.steps[i].local);
      check_parts(program.steps[i].store);
      check_ends(program.steps[i].receives);
      check_ends(program.steps[i].sends);
    }
  }
}

}  // namespace

}  // namespace ccoll::testing::cuda

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaLaunchCooperativeKernel(const void* kernel_of, dim3 grid, dim3 block,
                                        void** arguments, std::size_t shared, cudaStream_t stream) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (known(stream)->device != current_device) return cudaErrorInvalidResourceHandle;
  if (!may_launch(kernel_of, stream)) return cudaErrorStreamCaptureUnsupported;
  if (leaves_nothing(kernel_of)) return put(stream, [] {});
  if (refusing.contains(current_device)) return cudaErrorLaunchOutOfResources;
  const TeamLaunch& call = *static_cast<const TeamLaunch*>(arguments[0]);
  const auto number = static_cast<const char*>(kernel_of) - &team_kernels[0][0];
  if (number % 2 != (call.program.by_words ? 1 : 0)) return cudaErrorInvalidDeviceFunction;
  if (grid.x != call.program.block_count || shared != 8 * call.program.shared_words() ||
      grid.x > static_cast<unsigned>(multiprocessors) * (kThreadsAtOnce / block.x)) {
    return cudaErrorCooperativeLaunchTooLarge;
  }
  ++team_kernels_launched;
  if (call.program.by_words) ++team_kernels_by_words;
  TeamLaunch patient = call;
  patient.spins_per_look = 1;  // each look lets other threads run first
  static std::uint64_t never = 0;
  if (has_fault("deaf")) patient.abort = &never;
  if (has_fault("lonely")) keep_from_others(patient, patient.state.flags);
  if (has_fault("mute")) keep_from_others(patient, patient.state.words);
  // The host and other devices continue meanwhile: such a kernel may end only when told to.
  const auto runs = std::make_shared<Runs>();
  const auto run = [patient, runs, device = current_device, threads = block.x,
                    holds = known(stream)->capture == nullptr ? &holds_kernels : &holds_graphs] {
    check_team_reach(device, patient);
    if (broken_by != cudaSuccess) return;
    ++runs->begun;
    ++kernels_running;
    Room& room = Room::of(device);
    std::thread([patient, runs, holds, &room, threads,
                 places = room.take(patient.program.block_count, threads)] {
      if (*holds) hold(patient, *holds);
      run_team(patient);
      if (has_fault("garbled")) garble(patient);
      maybe_spoil(patient.buffers[1], 1);
      room.give_back(places, threads);
      ++runs->ended;
      --kernels_running;
    }).detach();
  };
  // All its blocks begin at once, when there is room for them.
  put_when_there_is_room(stream, grid.x, block.x, run, true);
  Item ended;
  ended.what = Item::wait;
  ended.run = [] {};
  ended.is_ready = [runs] { return runs->ended == runs->begun; };
  put(stream, std::move(ended));
  return cudaSuccess;
}

int cuda_on_host_team_kernels() { return team_kernels_launched; }
int cuda_on_host_team_kernels_by_words() { return team_kernels_by_words; }
void cuda_on_host_holds_kernels(bool holds) { holds_kernels = holds; }
void cuda_on_host_holds_graphs(bool holds) { holds_graphs = holds; }
int cuda_on_host_held_kernels() { return held_kernels; }
int cuda_on_host_runs_teams() { return kernels_running; }
void cuda_on_host_refuses(int device, bool does) {
  const std::lock_guard lock(mu);
  does ? void(refusing.insert(device)) : void(refusing.erase(device));
}

}  // extern "C"
