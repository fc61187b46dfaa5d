// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A rank that tries its communicators' calls in streams, and times some.

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <random>
#include <stop_token>
#include <thread>
#include <vector>

#include "ccoll/communicator.hpp"
#include "core/text.hpp"
#include "gpu/cuda/cuda.hpp"
#include "gpu_check/children.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/phases/communicators/draw.hpp"
#include "gpu_check/phases/graph.hpp"
#include "schedule/problem.hpp"
#include "support/differences.hpp"
#include "support/effort.hpp"
#include "system/locks.hpp"

namespace ccoll::gpu_check {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kArena = 4 << 20;
constexpr std::size_t kMostTimed = 16 << 20;

/// Reports what a rank is doing when it hangs. By then its calls' own time limits have passed, so
/// its stream never continues, and only the phase's limit ends it.
class Watch {
 public:
  explicit Watch(std::function<void(const std::string&)> say)
      : say_(std::move(say)), thread_([this](const std::stop_token& stop) { look(stop); }) {}

  void at(std::string what) { *stage_.lock() = {std::move(what), Clock::now()}; }

 private:
  using Clock = std::chrono::steady_clock;
  static inline const std::chrono::seconds kPatience{testing::by_effort(45, 15, 45)};

  struct Stage {
    std::string what = "start-up";
    Clock::time_point since = Clock::now();
  };

  void look(const std::stop_token& stop) {
    auto stage = stage_.lock();
    while (!stop.stop_requested()) {
      if (Clock::now() - stage->since > kPatience) return say_(stage->what);
      bell_.wait_for(stage, stop, std::chrono::seconds(1), [] { return false; });
    }
  }

  const std::function<void(const std::string&)> say_;
  Guarded<Stage> stage_;
  std::condition_variable_any bell_;
  std::jthread thread_;  // last, because it uses all of the above
};

/// One rank's results, reported when all have ended.
struct RankReport {
  std::uint64_t tried = 0;
  std::vector<std::string> wrong;
  std::vector<std::string> left_out;  ///< for lack of time
  std::string failed;                 ///< the error that ended it early
  std::vector<nlohmann::json> figures;
};

/// A rank's work, the same on all ranks except for the places of its buffers.
class TriedRank {
 public:
  TriedRank(const std::shared_ptr<Store>& store, int rank, int size, std::string way,
            const PhaseContext& context, RankReport& report)
      : rank_(rank),
        size_(size),
        way_(std::move(way)),
        report_(report),
        watch_([this, &context](const std::string& what) {
          const auto said =
              fmt::format("rank {} of {}, by {}, stands in: {}", rank_, size_, way_, what);
          std::printf("%s\n", said.c_str());
          std::fflush(stdout);
          context.records.add({{"phase", context.name}, {"what", "stands"}, {"said", said}});
        }),
        same_(context.seed + static_cast<unsigned>(size)),
        own_(context.seed + 1000 * static_cast<unsigned>(size) + static_cast<unsigned>(rank)),
        store_(store),
        host_in_(kArena),
        host_out_(kArena) {}

  void run() {
    // Create the host's communicator and memory first: then all ranks have them before any call.
    // Waiting streams have queues of their own, so allocating waits for nobody.
    value_or_throw(make_memory());
    auto host = make("host", kHost, std::size_t{64} << 20);
    auto communicator = make("calls", 0, std::size_t{64} << 20);
    auto crowded = make("crowded", 0, std::size_t{64} << 10);
    const bool is_made_by_device = communicator.counters().device_workspace_bytes > 0;
    judge(is_made_by_device == (way_ != "host"), "calls are not made that way");
    graphs(communicator, host);
    trials(communicator, host);
    messages(communicator, host);
    crowd(crowded, host);
    if (size_ == 2) figures(communicator);
    // Freeing memory waits for all streams of the process, so all must be done first.
    watch_.at("the end");
    communicator.barrier();
  }

 private:
  Communicator make(const char* name, int device, std::size_t device_memory) {
    CommunicatorOptions options;
    options.name = name;
    options.device.ordinal = device;
    for (const auto way : {DeviceWay::team, DeviceWay::steps, DeviceWay::host})
      if (way_ == to_string(way)) options.device.way = way;
    options.device.staging_bytes = device_memory;
    options.timeout = std::chrono::seconds(testing::by_effort(30, 10, 30));
    options.start_timeout = std::chrono::seconds(testing::by_effort(60, 20, 60));
    return Communicator::create(make_prefix_store(store_, name), rank_, size_, options);
  }

  Status make_memory() {
    const std::size_t bytes = size_ == 2 ? kMostTimed : kArena;
    CCOLL_TRY(device::put(device::make_stream(), stream_));
    CCOLL_TRY(device::put(device::make_stream(), other_stream_));
    CCOLL_TRY(device::put(device::allocate_on_device(bytes), device_in_));
    CCOLL_TRY(device::put(device::allocate_on_device(bytes), device_out_));
    return device::put(device::allocate_mapped(bytes), pinned_);
  }

  CallOptions in(const device::OwnStream& stream) const {
    CallOptions options;
    options.stream = stream.get();
    return options;
  }
  void wait(const device::OwnStream& stream) const {
    check(cudaStreamSynchronize(stream.get()), "waiting for a stream");
  }
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) const {
    check(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "copying");
  }
  void expect_none(const Communicator& communicator) const {
    if (const auto error = communicator.error(); !error.empty())
      throw std::runtime_error("broken: " + error);
  }
  /// Whether rank 0 has time for more, which all ranks learn; if not, notes what is left out.
  bool goes_on(Communicator& host, const std::string& left_out) {
    std::uint8_t late = is_late() ? 1 : 0;
    host.broadcast(Block(&late, 1, DataType::uint8), 0);
    if (late != 0) report_.left_out.push_back(fmt::format("{} of {} by {}", left_out, size_, way_));
    return late == 0;
  }
  void judge(const Bytes& found, const Bytes& expected, const std::string& what) {
    judge(found == expected, what + ": " + testing::differences(found, expected));
  }
  void judge(bool right, const std::string& what) {
    report_.tried++;
    if (!right && report_.wrong.size() < 20)
      report_.wrong.push_back(fmt::format("rank {} of {}, by {}: {}", rank_, size_, way_, what));
  }

  void graphs(Communicator& communicator, Communicator& host);
  void trials(Communicator& communicator, Communicator& host);
  void trial(Communicator& communicator, Communicator& host, const Draw& draw);
  void make_call(Communicator& communicator, const Draw& draw, const void* input, void* output);
  void messages(Communicator& communicator, Communicator& host);
  void crowd(Communicator& communicator, Communicator& host);
  void figures(Communicator& communicator);
  void figure(Communicator& communicator, const char* call, std::size_t bytes,
              const std::function<void()>& make);
  double median_of(Communicator& communicator, const std::function<void()>& what) const;

  const int rank_;
  const int size_;
  const std::string way_;
  RankReport& report_;
  Watch watch_;
  std::mt19937_64 same_, own_;
  const std::shared_ptr<Store> store_;
  Bytes host_in_, host_out_;
  device::DeviceMemory device_in_, device_out_;
  device::MappedMemory pinned_;
  device::OwnStream stream_, other_stream_;
};

}  // namespace ccoll::gpu_check
