// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank of a stream group and its calls on memory that tests provide, on a GPU or on the host
/// that plays one.

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "gpu/cuda/cuda.hpp"
#include "gpu/group/stream_group.hpp"
#include "gpu/registered.hpp"
#include "gpu/team/team_memory.hpp"
#include "support/memory_kind.hpp"

namespace ccoll::test {

/// Lowers it as all ranks do. `devices`: the group's, or none if its calls are stream steps.
inline device::LoweredTeam lowered_for_streams(const TeamCase& of,
                                               std::vector<std::uint32_t> devices = {}) {
  auto request = of.request();
  request.lends = false;
  if (devices.empty()) {
    request.tiny_bytes = 0;
  } else {
    // No rank knows whether the others' buffers are in place.
    request.in_place.assign(of.problem.size, true);
  }
  request.devices = std::move(devices);
  return device::lower(request).value();
}

using testing::kMemoryKinds;
using testing::MemoryKind;

/// Memory of one of these kinds, for calls.
class Room {
 public:
  static constexpr std::size_t kBytes = 1 << 20;

  /// Another rank of the process may capture a call meanwhile.
  static Result<std::unique_ptr<Room>> make(MemoryKind kind) {
    const device::BesideCaptures beside;
    auto made = std::make_unique<Room>();
    if (kind == MemoryKind::allocated) {
      CCOLL_TRY(device::put(device::Registered::make(std::nullopt, kBytes), made->lent_));
      made->data_ = made->lent_->data();
      return made;
    }
    // It lies within its allocation, which others have to find.
    constexpr std::size_t kBefore = 5 * 256 + 16;
    CCOLL_TRY(device::put(device::allocate_on_device(kBefore + kBytes), made->own_));
    made->data_ = made->own_.get() + kBefore;
    if (kind == MemoryKind::registered)
      CCOLL_TRY(device::put(device::Registered::of_user(made->data_, kBytes), made->lent_));
    return made;
  }
  Room() = default;
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  ~Room() {
    // Memory that another rank keeps open is never freed.
    if (lent_ && own_ && !lent_->is_back_within(std::chrono::seconds(20))) (void)own_.release();
    lent_.reset();
    const device::BesideCaptures beside;
    own_.reset();
  }
  std::byte* data() const { return data_; }
  device::Registered& lent() { return *lent_; }

 private:
  device::DeviceMemory own_;  ///< null if the memory is from ccoll::allocate
  std::unique_ptr<device::Registered> lent_;
  std::byte* data_ = nullptr;
};

class GroupBench {
 public:
  using TimePoint = device::StreamGroup::TimePoint;

  static Result<std::unique_ptr<GroupBench>> make(const device::StreamGroupOptions& options,
                                                  device::Exchange& exchange, TimePoint deadline) {
    std::unique_ptr<GroupBench> made(new GroupBench(options.rank));
    CCOLL_TRY(device::put(device::StreamGroup::make(options, exchange, deadline), made->group_));
    for (auto& stream : made->streams_) CCOLL_TRY(device::put(device::make_stream(), stream));
    for (const MemoryKind kind : kMemoryKinds)
      for (std::size_t room = 0; room < kRooms; room++) CCOLL_TRY(made->take(kind, room));
    return made;
  }

  device::StreamGroup& group() { return *group_; }
  Result<const device::GroupProgram*> load(const TeamCase& of) {
    return group_->load(lowered_for_streams(of, group_->device_numbers()));
  }
  Rank rank() const { return rank_; }
  CUstream_st* stream(std::size_t number = 0) const { return streams_[number % 2].get(); }

  /// Later trips use memory of that kind.
  void use(MemoryKind kind) { kind_ = kind; }

  std::unique_ptr<Room>& room(MemoryKind kind, std::size_t number) {
    return rooms_[static_cast<std::size_t>(kind)][number];
  }
  /// Hands that memory to the caller to keep or free; new memory must take its place.
  std::unique_ptr<Room> give_away(MemoryKind kind, std::size_t number) {
    return std::move(room(kind, number));
  }
  Status take(MemoryKind kind, std::size_t number) {
    return device::put(Room::make(kind), room(kind, number));
  }

  /// This many calls may be in flight.
  static constexpr std::size_t kRooms = 3;

  /// A call in flight: the rank's part of a test's memory. Its device memory is never freed,
  /// because that would wait for all ranks of the process.
  class Trip {
   public:
    Trip(GroupBench& bench, std::size_t room, TeamMemory& memory)
        : memory_(memory), rank_(bench.rank_), there_(bench.room(bench.kind_, room)->data()) {}
    Status go(cudaStream_t stream) {
      const auto all = memory_.all(rank_);
      if (all.size() > Room::kBytes) return fail(ErrorKind::internal, "a case of too many bytes");
      return device::cuda_status(
          cudaMemcpyAsync(there_, all.data(), all.size(), cudaMemcpyHostToDevice, stream),
          "copying a rank's memory to the GPU");
    }
    Status come_back() {
      const auto all = memory_.all(rank_);
      return device::cuda_status(cudaMemcpy(all.data(), there_, all.size(), cudaMemcpyDeviceToHost),
                                 "copying a rank's memory from the GPU");
    }
    std::byte* input() { return there_ + (memory_.input(rank_) - memory_.all(rank_).data()); }
    std::byte* output() { return there_ + (memory_.output(rank_) - memory_.all(rank_).data()); }

   private:
    TeamMemory& memory_;
    const Rank rank_;
    std::byte* const there_;
  };

  Status begin(const device::GroupProgram* program, Trip& trip, std::size_t on = 0) {
    CCOLL_TRY(trip.go(stream(on)));
    return group_->call(program, trip.input(), trip.output(), stream(on));
  }

  /// Runs one call to its end.
  Status run(const device::GroupProgram* program, TeamMemory& memory, TimePoint deadline) {
    Trip trip(*this, 0, memory);
    CCOLL_TRY(begin(program, trip));
    CCOLL_TRY(group_->wait(deadline));
    return trip.come_back();
  }

  /// Captures a call and replays it once for each of `memories`, which have the same shape.
  Status replay(const device::GroupProgram* program, std::vector<TeamMemory>& memories) {
    Trip first(*this, 0, memories[0]);
    constexpr const char* kWhat = "a graph of a call";
    CCOLL_TRY(device::cuda_status(
        cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "capturing a call"));
    const Status called = group_->call(program, first.input(), first.output(), stream(), true);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream(), &graph);
    CCOLL_TRY(called);
    CCOLL_TRY(device::cuda_status(ended, "capturing a call"));
    cudaGraphExec_t made = nullptr;
    const cudaError_t instantiated = cudaGraphInstantiate(&made, graph, 0);
    cudaGraphDestroy(graph);
    CCOLL_TRY(device::cuda_status(instantiated, kWhat));
    Status ran;
    for (TeamMemory& memory : memories) {
      if (ran) ran = replay_once(made, first, memory);
    }
    cudaGraphExecDestroy(made);
    return ran;
  }

 private:
  explicit GroupBench(Rank rank) : rank_(rank) {}

  Status replay_once(cudaGraphExec_t graph, Trip& first, TeamMemory& memory) {
    const auto all = memory.all(rank_);
    std::byte* const there = first.input() - (memory.input(rank_) - all.data());
    constexpr const char* kWhat = "replaying a call";
    CCOLL_TRY(device::cuda_status(
        cudaMemcpyAsync(there, all.data(), all.size(), cudaMemcpyHostToDevice, stream()), kWhat));
    CCOLL_TRY(device::cuda_status(cudaGraphLaunch(graph, stream()), kWhat));
    CCOLL_TRY(device::cuda_status(cudaStreamSynchronize(stream()), kWhat));
    CCOLL_TRY(group_->check());
    return device::cuda_status(cudaMemcpy(all.data(), there, all.size(), cudaMemcpyDeviceToHost),
                               kWhat);
  }

  const Rank rank_;
  std::unique_ptr<Room> rooms_[std::size(kMemoryKinds)][kRooms];
  MemoryKind kind_ = MemoryKind::ordinary;
  device::OwnStream streams_[2];
  std::unique_ptr<device::StreamGroup> group_;  // ends before the streams do
};

/// Calls on random bits; ranks with the same `random` make the same calls.
class GroupTrials {
 public:
  /// `patience`: anything that does not hang ends within this time.
  GroupTrials(GroupBench& bench, std::mt19937_64& random, std::chrono::seconds patience)
      : bench_(bench), random_(random), patience_(patience) {
    auto same = random;
    own_.seed(same() + bench.rank());
  }

  /// One to three calls of a program: one by one, queued, or as a graph, with each rank's memory of
  /// `kind`, or of any kind. Returns `corrupt` if the rank's memory is not bit by bit the result of
  /// the team kernel's code on the host.
  Status run(const TeamCase& made, std::optional<MemoryKind> kind = std::nullopt) {
    const auto program = lowered_for_streams(made);
    const auto loaded = bench_.load(made);
    const std::size_t calls = 1 + random_() % GroupBench::kRooms;
    std::vector<TeamMemory> memory = random_memory(made, calls), expected = memory;
    for (auto& each : expected) host_.run(program, each.buffers(), 1);
    const unsigned way = random_() % 3;
    bench_.use(kind.value_or(kMemoryKinds[own_() % std::size(kMemoryKinds)]));
    CCOLL_TRY(loaded);
    CCOLL_TRY(way == 0   ? one_by_one(*loaded, memory)
              : way == 1 ? all_at_once(*loaded, memory)
                         : bench_.replay(*loaded, memory));
    for (std::size_t call = 0; call < calls; call++) {
      const auto wrong = memory[call].differences(expected[call], bench_.rank());
      if (wrong.empty()) continue;
      constexpr const char* kWays[] = {"one by one", "all at once", "in a graph"};
      return fail(ErrorKind::corrupt, "call {} of {}, {}: bits differ from the host's: {}", call,
                  calls, kWays[way], wrong);
    }
    return {};
  }

  /// Launches one graph that often, with new data each time; one in 16 results is checked.
  Status replay(const TeamCase& made, std::size_t launches,
                std::optional<MemoryKind> kind = std::nullopt) {
    bench_.use(kind.value_or(kMemoryKinds[own_() % std::size(kMemoryKinds)]));
    const auto program = lowered_for_streams(made);
    const auto loaded = bench_.load(made);
    std::vector<TeamMemory> memory = random_memory(made, launches), expected = memory;
    CCOLL_TRY(loaded);
    CCOLL_TRY(bench_.replay(*loaded, memory));
    for (std::size_t i = 0; i < launches; i++) {
      if (i > 2 && i + 1 < launches && i % 16 != 0) continue;
      host_.run(program, expected[i].buffers(), 1);
      const auto wrong = memory[i].differences(expected[i], bench_.rank());
      if (wrong.empty()) continue;
      return fail(ErrorKind::corrupt, "launch {} of {}: bits differ from the host's: {}", i,
                  launches, wrong);
    }
    return {};
  }

 private:
  /// Memories of the same shape, each with other bits.
  std::vector<TeamMemory> random_memory(const TeamCase& made, std::size_t count) {
    std::vector<TeamMemory> memory(count, TeamMemory(made, random_));
    for (TeamMemory& each : memory) {
      for (Rank rank = 0; rank < made.problem.size; rank++) {
        for (auto& byte : each.all(rank)) byte = static_cast<std::byte>(random_());
      }
    }
    return memory;
  }
  GroupBench::TimePoint soon() const { return std::chrono::steady_clock::now() + patience_; }

  Status one_by_one(const device::GroupProgram* program, std::vector<TeamMemory>& memory) {
    for (auto& each : memory) CCOLL_TRY(bench_.run(program, each, soon()));
    return {};
  }
  /// Does not wait in between; nothing but the calls orders the streams.
  Status all_at_once(const device::GroupProgram* program, std::vector<TeamMemory>& memory) {
    std::vector<GroupBench::Trip> trips;
    for (auto& each : memory) trips.emplace_back(bench_, trips.size(), each);
    for (std::size_t i = 0; i < trips.size(); i++) CCOLL_TRY(bench_.begin(program, trips[i], i));
    CCOLL_TRY(bench_.group().wait(soon()));
    for (auto& trip : trips) CCOLL_TRY(trip.come_back());
    return {};
  }

  GroupBench& bench_;
  std::mt19937_64& random_;
  std::mt19937_64 own_;  ///< this rank's own
  const std::chrono::seconds patience_;
  testing::TeamOnHost host_{512, 8192};
};

}  // namespace ccoll::test
