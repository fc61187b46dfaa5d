// SPDX-License-Identifier: Apache-2.0
#include "support/gpu/team_on_host.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <stdexcept>
#include <thread>

#include "gpu/kernel/interpret.hpp"
#include "kernels/device/host_block.hpp"

namespace ccoll::testing {
namespace {

using device::Family;

template <Family family, device::Block B>
void interpret(const B& block, const device::TeamLaunch& launch, std::uint32_t number,
               std::uint64_t* shared) {
  if (launch.program.by_words) {
    return device::TeamInterpreter<family, true, B>(block, launch, number, shared).run();
  }
  device::TeamInterpreter<family, false, B>(block, launch, number, shared).run();
}

/// Picks a kernel as the host does.
template <device::Block B>
void interpret(const B& block, const device::TeamLaunch& launch, std::uint32_t number,
               std::uint64_t* shared) {
  switch (device::family_of(launch.program.type, launch.program.op)) {
    case Family::bits:
      return interpret<Family::bits>(block, launch, number, shared);
    case Family::integers:
      return interpret<Family::integers>(block, launch, number, shared);
    case Family::floats:
      return interpret<Family::floats>(block, launch, number, shared);
    case Family::small_floats:
      return interpret<Family::small_floats>(block, launch, number, shared);
  }
}

std::vector<device::TeamEnding> endings_of(const device::TeamLaunch& launch) {
  std::vector<device::TeamEnding> endings;
  for (std::uint32_t block = 0; block < launch.program.block_count; ++block) {
    endings.push_back(static_cast<device::TeamEnding>(launch.progress[block].ending));
  }
  return endings;
}

}  // namespace

void run_on_host(const device::TeamLaunch& launch, std::uint32_t threads_per_block) {
  std::vector<std::jthread> blocks;
  for (std::uint32_t number = 0; number < launch.program.block_count; ++number) {
    blocks.emplace_back([&launch, number, threads_per_block] {
      std::vector<std::uint64_t> shared(launch.program.shared_words());
      if (threads_per_block == 1) {
        return interpret(device::LoneThread(), launch, number, shared.data());
      }
      device::run_block(threads_per_block, [&](const device::HostBlock& block) {
        interpret(block, launch, number, shared.data());
      });
    });
  }
}

TeamOnHost::TeamOnHost(std::uint32_t blocks, std::uint32_t flags, std::uint32_t devices)
    : flags_(flags),
      devices_(devices,
               {std::vector<device::TeamTicket>(blocks),
                std::vector<std::uint64_t>(std::size_t{flags + devices} * device::kFlagWords),
                std::vector<std::uint64_t>(device::kTeamWords),
                {},
                {}}),
      progress_(blocks + devices) {}

std::vector<device::TeamEnding> TeamOnHost::run(const device::LoweredTeam& team,
                                                const std::vector<Buffers>& buffers,
                                                std::uint32_t threads_per_block) {
  share_workspace(team.workspace_bytes);
  const device::TeamLaunch launch = launch_of(team, buffers);
  run_on_devices(team, launch, threads_per_block);
  return endings_of(launch);
}

std::vector<device::TeamEnding> TeamOnHost::run_beside(const device::LoweredTeam& team,
                                                       const std::vector<Buffers>& buffers,
                                                       std::uint64_t id,
                                                       std::uint32_t threads_per_block) {
  device::TeamLaunch launch = launch_of(team, buffers);
  launch.id = id;
  // Overlapping calls need progress of their own.
  std::vector<device::TeamProgress> progress(progress_.size());
  launch.progress = progress.data();
  run_on_devices(team, launch, threads_per_block);
  return endings_of(launch);
}

void TeamOnHost::share_workspace(std::uint64_t bytes) {
  // The workspace holds nothing across calls.
  for (Device& each : devices_) each.workspace.assign(bytes + device::kTeamAlignment, kUntouched);
}

device::TeamLaunch TeamOnHost::launch_of(const device::LoweredTeam& team,
                                         const std::vector<Buffers>& buffers) {
  device::TeamLaunch launch;
  launch.program = team.on_host();
  for (const Device& each : devices_) {
    if (launch.program.block_count <= each.tickets.size() &&
        launch.program.flag_count() <= flags_ &&
        team.workspace_bytes + device::kTeamAlignment <= each.workspace.size())
      continue;
    throw std::runtime_error("a program of more blocks or flags or bytes than there is memory for");
  }
  std::byte** next = launch.buffers;
  for (const Buffers& of_rank : buffers) {
    *next++ = of_rank.input;
    *next++ = of_rank.output;
  }
  std::uint64_t** flags = launch.state.flags;
  std::uint64_t** words = launch.state.words;
  for (Device& each : devices_) {
    const auto place = reinterpret_cast<std::uintptr_t>(each.workspace.data());
    *next++ = each.workspace.data() + (device::kTeamAlignment - place % device::kTeamAlignment);
    *flags++ = each.flags.data();
    *words++ = each.words.data();
  }
  launch.abort = &abort_;
  launch.busy = &busy_;
  // Each look lets other threads run first, and there may be hundreds on a core.
  launch.spins_per_look = 20;
  launch.progress = progress_.data();
  return launch;
}

/// Runs every device's part concurrently.
void TeamOnHost::run_on_devices(const device::LoweredTeam& team, const device::TeamLaunch& launch,
                                std::uint32_t threads_per_block) {
  std::vector<std::jthread> parts;
  for (std::uint32_t number = 0; number < devices_.size(); ++number) {
    parts.emplace_back([this, &team, &launch, number, threads_per_block] {
      run_on_device(number, team, launch, threads_per_block);
    });
  }
}

void TeamOnHost::start_behind(std::uint64_t calls, std::mt19937_64& random) {
  for (Device& each : devices_) {
    for (auto& ticket : each.tickets) ticket.calls = calls;
    // Each word has been written only by the last call that used it.
    std::ranges::fill(each.words, 0);
    const std::uint64_t first = calls < device::kTeamWords ? 1 : calls - device::kTeamWords + 1;
    for (std::uint64_t call = first; call <= calls; ++call) {
      each.words[device::aged_tiny_word(call)] =
          device::tiny_word(call, static_cast<std::uint32_t>(random()));
    }
  }
}

void TeamOnHost::run_on_device(std::uint32_t number, const device::LoweredTeam& team,
                               device::TeamLaunch launch, std::uint32_t threads_per_block) {
  const auto blocks = team.blocks_of(number);
  launch.program.blocks = blocks.data();
  launch.program.block_count = static_cast<std::uint32_t>(blocks.size());
  auto& tickets = devices_[number].tickets;
  launch.state.claim = &devices_[number].claim;
  launch.state.tickets = tickets.data();
  launch.state.ticket_count = static_cast<std::uint32_t>(tickets.size());
  run_on_host(launch, threads_per_block);
}

namespace {

/// Where a rank's buffer begins in the memory that it lends.
constexpr std::uint64_t begins_at(std::uint32_t buffer) { return 1000 + 77 * buffer; }

std::uint32_t number_of_loan(std::uint32_t buffer) { return 5 * device::kLoanPlaces + buffer; }

/// The mappings of all ranks' memory, as any rank sees them.
std::vector<device::LoanPlace> places_of(const TeamOnHost::Call& call) {
  std::vector<device::LoanPlace> places(call.loans.size() * device::kLoanPlaces);
  for (std::size_t rank = 0; rank < call.loans.size(); ++rank) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      if (!call.loans[rank].of[i]) continue;
      const std::uint32_t number = number_of_loan(i);
      const std::byte* const begin = i == 0 ? call.buffers[rank].input : call.buffers[rank].output;
      places[rank * device::kLoanPlaces + number % device::kLoanPlaces] = {
          number, reinterpret_cast<std::uint64_t>(begin) - begins_at(i)};
    }
  }
  return places;
}

}  // namespace

void TeamOnHost::lend(device::TeamLaunch& launch, const Call& call, std::uint32_t rank,
                      const std::vector<device::LoanPlace>& places) {
  if (call.loans.empty()) return;
  launch.program.lends_by_call = true;
  launch.loans.places = places.data();
  for (std::uint32_t other = 0; other < call.loans.size(); ++other) {
    if (other != rank) launch.buffers[2 * other] = launch.buffers[2 * other + 1] = nullptr;
  }
  const auto& [of, are_apart] = call.loans[rank];
  for (std::uint32_t i = 0; i < 2; ++i) {
    if (!of[i]) continue;
    launch.loans.said |=
        device::TeamLoans::of_buffer(i, device::said_of_loan(number_of_loan(i), are_apart));
    launch.loans.begins[i] = begins_at(i);
  }
}

bool TeamOnHost::run_apart(const std::vector<Call>& calls, std::uint32_t threads_per_block) {
  std::uint64_t bytes = 0;
  for (const Call& call : calls) bytes = std::max(bytes, call.team.workspace_bytes);
  share_workspace(bytes);
  std::vector<device::TeamLaunch> launches;
  std::vector<std::vector<device::LoanPlace>> places;
  for (const Call& call : calls) {
    places.push_back(places_of(call));
    device::TeamLaunch& launch = launches.emplace_back(launch_of(call.team, call.buffers));
    launch.id = launches.size();
    launch.state.awaited_devices = static_cast<std::uint32_t>(devices_.size());
    launch.state.ended = flags_;
  }
  std::atomic<bool> are_whole{true};
  std::vector<std::jthread> each;
  for (std::uint32_t number = 0; number < devices_.size(); ++number) {
    each.emplace_back([&, number] {
      // A device's blocks show a call's progress until it begins the next.
      std::vector<device::TeamProgress> progress(progress_.size());
      for (std::size_t i = 0; i < calls.size(); ++i) {
        device::TeamLaunch launch = launches[i];
        launch.progress = progress.data();
        lend(launch, calls[i], number, places[i]);
        run_on_device(number, calls[i].team, launch, threads_per_block);
        if (calls[i].has_ended) calls[i].has_ended(number);
        for (const device::TeamBlock& block : calls[i].team.blocks_of(number)) {
          const auto ending = static_cast<device::TeamEnding>(progress[block.number].ending);
          if (ending != device::TeamEnding::finished) are_whole = false;
        }
      }
    });
  }
  each.clear();
  return are_whole;
}

void TeamOnHost::abort() { device::store_relaxed(&abort_, 1); }

}  // namespace ccoll::testing
