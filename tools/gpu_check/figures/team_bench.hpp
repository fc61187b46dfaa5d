// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A team with a stream for each rank on its GPU, and calls of it on memory that tests provide.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/cuda/cuda.hpp"
#include "gpu/team/team.hpp"
#include "gpu/team/team_memory.hpp"

namespace ccoll::gpu_check {

class TeamBench {
 public:
  /// `devices`: by rank, or empty for the first one.
  TeamBench(std::uint32_t ranks, std::uint32_t threads,
            device::CopyUse copies = device::CopyUse::by_size, const std::vector<int>& devices = {})
      : devices_(devices.empty() ? std::vector<int>(ranks) : devices),
        team_(value_or_throw(device::Team::make({.ranks = ranks,
                                                 .workspace_bytes = 64 << 20,
                                                 .most_threads = threads,
                                                 .devices = devices_,
                                                 .copies = copies}))) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const device::CurrentDevice current(devices_[rank]);
      streams_.push_back(value_or_throw(device::make_stream()));
    }
    memory_.resize(ranks);
    sizes_.resize(ranks);
  }

  device::Team& team() { return *team_; }
  CUstream_st* stream(std::uint32_t rank) const { return streams_[rank].get(); }

  /// How the ranks make their calls.
  enum class Way { one_thread, thread_each, default_stream };

  /// One call: each rank copies its memory to the device, makes the call and copies the result
  /// back, all in its stream, which alone orders the three.
  Status run(const device::LoadedProgram* program, test::TeamMemory& memory, Way way) {
    const auto ranks = static_cast<std::uint32_t>(streams_.size());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      CCOLL_TRY(make_room(rank, memory.all(rank).size()));
    }
    if (way == Way::thread_each) {
      CCOLL_TRY(run_threads(program, memory));
    } else {
      const auto stream_of = [&](std::uint32_t rank) {
        return way == Way::default_stream && rank == 0 ? nullptr : stream(rank);
      };
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        CCOLL_TRY(arrive(program, memory, rank, stream_of(rank)));
      }
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        CCOLL_TRY(leave(memory, rank, stream_of(rank)));
      }
    }
    CCOLL_TRY(team_->wait(soon()));
    for (const int device : devices_) {
      const device::CurrentDevice current(device);
      CCOLL_TRY(device::cuda_status(cudaDeviceSynchronize(), "a team's call"));
    }
    return {};
  }

  /// Begins a call without waiting for its end; the ranks' memory stays on the device.
  Status begin(const device::LoadedProgram* program, test::TeamMemory& memory) {
    for (std::uint32_t rank = 0; rank < streams_.size(); ++rank) {
      CCOLL_TRY(make_room(rank, memory.all(rank).size()));
      CCOLL_TRY(arrive(program, memory, rank, stream(rank)));
    }
    for (std::uint32_t rank = 0; rank < streams_.size(); ++rank) {
      CCOLL_TRY(team_->leave(rank, soon()));
    }
    return {};
  }

  static device::Team::TimePoint soon() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(20);
  }

 private:
  Status make_room(std::uint32_t rank, std::size_t bytes) {
    if (bytes <= sizes_[rank]) return {};
    const device::CurrentDevice current(devices_[rank]);
    CCOLL_TRY(device::put(device::allocate_on_device(2 * bytes), memory_[rank]));
    sizes_[rank] = 2 * bytes;
    return {};
  }

  Status run_threads(const device::LoadedProgram* program, test::TeamMemory& memory) {
    std::vector<Status> ended(streams_.size());
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t rank = 0; rank < streams_.size(); ++rank) {
        threads.emplace_back([&, rank] {
          ended[rank] = arrive(program, memory, rank, stream(rank));
          if (ended[rank]) ended[rank] = leave(memory, rank, stream(rank));
        });
      }
    }
    for (Status& each : ended) CCOLL_TRY(std::move(each));
    return {};
  }

  Status arrive(const device::LoadedProgram* program, test::TeamMemory& memory, std::uint32_t rank,
                CUstream_st* stream) {
    const device::CurrentDevice current(devices_[rank]);
    const auto all = memory.all(rank);
    std::byte* const there = memory_[rank].get();
    CCOLL_TRY(device::cuda_status(
        cudaMemcpyAsync(there, all.data(), all.size(), cudaMemcpyHostToDevice, stream),
        "copying a rank's memory to the GPU"));
    device::TeamCall call;
    call.rank = rank;
    call.program = program;
    call.input = there + (memory.input(rank) - all.data());
    call.output = there + (memory.output(rank) - all.data());
    call.stream = stream;
    return team_->arrive(call);
  }

  Status leave(test::TeamMemory& memory, std::uint32_t rank, CUstream_st* stream) {
    CCOLL_TRY(team_->leave(rank, soon()));
    const device::CurrentDevice current(devices_[rank]);
    const auto all = memory.all(rank);
    return device::cuda_status(cudaMemcpyAsync(all.data(), memory_[rank].get(), all.size(),
                                               cudaMemcpyDeviceToHost, stream),
                               "copying a rank's memory from the GPU");
  }

  const std::vector<int> devices_;  ///< by rank
  std::vector<device::OwnStream> streams_;
  std::vector<device::DeviceMemory> memory_;
  std::vector<std::size_t> sizes_;
  std::unique_ptr<device::Team> team_;  // ends before the streams do
};

}  // namespace ccoll::gpu_check
