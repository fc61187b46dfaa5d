// SPDX-License-Identifier: Apache-2.0
// A graph of many small calls of a team, compared with the minimum of any call: the launches of as
// many kernels of that shape (E, for each), and the trip of a flag to another block and back (F).
#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "gpu_check/figures/figure_kernels.hpp"
#include "gpu_check/figures/figures.hpp"
#include "gpu_check/phases/graph.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

const int kCalls = testing::by_effort(10, 100, 100);
constexpr std::uint32_t kRoundTrips = 1000;
const std::chrono::milliseconds kGraphLoad{testing::by_effort(0, 200, 200)};

Candidate round_trips(std::byte* flags) {
  return {
      fmt::format("{} round trips of a flag", kRoundTrips), 0,
      [flags](cudaStream_t stream) -> Status {
        CCOLL_TRY(device::cuda_status(cudaMemsetAsync(flags, 0, 256, stream), "zeroing two flags"));
        std::byte* words = flags;
        std::uint32_t rounds = kRoundTrips;
        void* arguments[] = {&words, &rounds};
        return device::cuda_status(cudaLaunchCooperativeKernel(round_trip_kernel(), dim3(2),
                                                               dim3(32), arguments, 0, stream),
                                   "launching two blocks");
      }};
}

/// A graph of as many kernels as calls.
struct TimedGraph {
  TimedGraph(std::string called, std::span<const cudaStream_t> streams,
             const std::function<void()>& once)
      : name(std::move(called)), graph(streams, [&] {
          for (int i = 0; i < kCalls; ++i) once();
        }) {}
  Candidate candidate() const {
    return {name, 0, [this](cudaStream_t stream) {
              graph.launch({&stream, 1});
              return Status();
            }};
  }
  double seconds_of_call(const Candidate& timed) const { return median_of(timed) / kCalls; }

  std::string name;
  Graph graph;
};

class SmallCalls {
 public:
  explicit SmallCalls(const FigureBench& bench)
      : bench_(bench),
        team_(4, bench.buffers, bench.buffer_bytes),
        flags_(value_or_throw(device::allocate_on_device(256))) {}

  /// `target`: flag round trips in addition to E.
  void time(std::uint64_t bytes, double target) {
    std::vector<Candidate> timed = {round_trips(flags_.get())};
    std::vector<std::unique_ptr<TimedGraph>> graphs;
    for (const Algorithm algorithm :
         {Algorithm::one_shot, Algorithm::two_shot, Algorithm::recursive_doubling}) {
      for (const std::uint16_t lanes : {1, 4}) add(graphs, algorithm, lanes, bytes);
    }
    for (const auto& each : graphs) timed.push_back(each->candidate());
    bench_.clockwork.run(timed, kGraphLoad);
    const double trip = median_of(timed[0]) / kRoundTrips;
    std::printf("F, a flag's round trip: %.3f us\n", trip * 1e6);
    std::optional<FigureBook::Result> best;
    // Each team's graph is followed by that of empty kernels.
    for (std::size_t i = 0; i + 1 < graphs.size(); i += 2) {
      const double call = graphs[i]->seconds_of_call(timed[i + 1]);
      const double empty = graphs[i + 1]->seconds_of_call(timed[i + 2]);
      std::printf("%s: %.3f us, E %.3f us\n", graphs[i]->name.c_str(), call * 1e6, empty * 1e6);
      const double trips = (call - empty) / trip;
      if (!best || trips < best->measured)
        best = {
            fmt::format("all_reduce of 4 ranks, {} B, in a graph of {}, beyond E", bytes, kCalls),
            trips, "a flag's round trip", target};
    }
    if (best) bench_.book.result(*best);
  }

 private:
  void add(std::vector<std::unique_ptr<TimedGraph>>& graphs, Algorithm algorithm,
           std::uint16_t lanes, std::uint64_t bytes) {
    auto name = fmt::format("all_reduce of 4 ranks, {} B, by {}, {} lanes", bytes,
                            to_string(algorithm), lanes);
    // One window on each lane.
    const auto slice = std::max<std::uint64_t>(bytes / 4 / lanes, 1);
    const auto program = team_.load(Kind::all_reduce, {algorithm, lanes, slice}, bytes);
    if (!program) return bench_.book.skip(name, program.error().message);
    name += fmt::format(", {} blocks of {} threads", program->blocks, program->threads);
    const cudaStream_t stream = bench_.clockwork.stream();
    bench_.book.judge(team_.wrong(*program, stream), name);
    graphs.push_back(std::make_unique<TimedGraph>(
        name, team_.streams(stream), [&] { value_or_throw(team_.call(*program, stream)); }));
    graphs.push_back(std::make_unique<TimedGraph>("empty kernels", std::span(&stream, 1), [&] {
      check(
          cudaLaunchCooperativeKernel(empty_kernel(), dim3(program->blocks), dim3(program->threads),
                                      nullptr, program->shared_bytes, stream),
          "capturing an empty kernel");
    }));
  }

  const FigureBench& bench_;
  TimedTeam team_;
  device::DeviceMemory flags_;
};

}  // namespace

void time_small_calls(const FigureBench& bench) {
  SmallCalls calls(bench);
  calls.time(8, 1.5);
  calls.time(64 << 10, 4);
}

}  // namespace ccoll::gpu_check
