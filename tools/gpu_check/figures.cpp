// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "engine/device/cuda.hpp"
#include "engine/device/team.hpp"
#include "kernels/device/launch.hpp"
#include "phases.hpp"
#include "read_kernel.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

using device::cuda_status;

const std::uint64_t kBytes = testing::by_effort<std::uint64_t>(1 << 20, 256 << 20, 256 << 20);
const int kRounds = testing::by_effort(1, 15, 15);
const std::chrono::seconds kLoad{testing::by_effort(0, 2, 2)};
/// Enough for the slots of every lane there.
constexpr std::uint64_t kWorkspaceBytes = 512 << 20;
/// Of float32 that adds up without rounding: every byte of it is 1.
constexpr int kFill = 1;

void must(const Status& status) {
  if (!status) raise(status.error());
}

/// Something that is timed: puts its work into the stream.
struct Candidate {
  std::string name;
  double bytes;  ///< read and written
  std::function<Status(cudaStream_t)> work;
  std::vector<double> seconds = {};
};

struct Spread {
  double low, median, high;  ///< a tenth is below low, and a tenth above high
};

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](std::size_t tenths) { return values[(values.size() - 1) * tenths / 10]; };
  return {at(1), at(5), at(9)};
}

/// All candidates in turn, so that what drifts drifts for all; after some time under load.
class Clockwork {
 public:
  Clockwork()
      : stream_(value_or_throw(device::make_stream())),
        begin_(value_or_throw(device::make_event(cudaEventDefault))),
        end_(value_or_throw(device::make_event(cudaEventDefault))) {}

  void run(std::vector<Candidate>& candidates) {
    const auto loaded = std::chrono::steady_clock::now() + kLoad;
    do {
      for (Candidate& each : candidates) time(each);
    } while (std::chrono::steady_clock::now() < loaded);
    for (int round = 0; round < kRounds; ++round) {
      for (Candidate& each : candidates) each.seconds.push_back(time(each));
    }
  }
  cudaStream_t stream() const { return stream_.get(); }

 private:
  double time(const Candidate& candidate) {
    must(cuda_status(cudaEventRecord(begin_.get(), stream_.get()), "timing"));
    must(candidate.work(stream_.get()));
    must(cuda_status(cudaEventRecord(end_.get(), stream_.get()), "timing"));
    must(cuda_status(cudaEventSynchronize(end_.get()), candidate.name));
    float ms = 0;
    must(cuda_status(cudaEventElapsedTime(&ms, begin_.get(), end_.get()), "timing"));
    return ms / 1e3;
  }

  device::OwnStream stream_;
  device::OwnEvent begin_, end_;
};

int processors() {
  int count = 0;
  must(cuda_status(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
                   "asking for multiprocessors"));
  return count;
}

std::vector<device::DeviceMemory> make_buffers(std::size_t count) {
  std::vector<device::DeviceMemory> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(value_or_throw(device::allocate_on_device(kBytes)));
    must(cuda_status(cudaMemset(all.back().get(), kFill, kBytes), "filling a buffer"));
  }
  must(cuda_status(cudaDeviceSynchronize(), "filling buffers"));
  return all;
}

/// What the device can: the first of these is what others are compared with.
std::vector<Candidate> ceilings(const std::vector<device::DeviceMemory>& buffers) {
  std::byte* const a = buffers[0].get();
  std::byte* const b = buffers[1].get();
  const auto grid = dim3(static_cast<unsigned>(processors() * 4));
  std::vector<Candidate> all;
  all.push_back({"cudaMemcpy", 2.0 * double(kBytes), [=](cudaStream_t stream) {
                   return cuda_status(
                       cudaMemcpyAsync(b, a, kBytes, cudaMemcpyDeviceToDevice, stream), "copying");
                 }});
  all.push_back({"cudaMemset", double(kBytes), [=](cudaStream_t stream) {
                   return cuda_status(cudaMemsetAsync(b, kFill, kBytes, stream), "writing");
                 }});
  all.push_back({"reading", double(kBytes), [=](cudaStream_t stream) {
                   const void* from = a;
                   void* out = b;
                   std::uint64_t words = kBytes / 16;
                   void* each[] = {&from, &words, &out};
                   return cuda_status(
                       cudaLaunchKernel(read_kernel(), grid, dim3(512), each, 0, stream),
                       "reading");
                 }});
  return all;
}

std::vector<Candidate> kernels(const std::vector<device::DeviceMemory>& buffers) {
  std::vector<Candidate> all;
  for (const std::uint32_t of_each : {1U, 2U, 4U}) {
    const device::LaunchShape shape{static_cast<std::uint32_t>(processors()) * of_each, 512};
    std::byte* const out = buffers.back().get();
    all.push_back({fmt::format("copy, {} blocks each", of_each), 2.0 * double(kBytes),
                   [=, from = buffers[0].get()](cudaStream_t stream) {
                     return device::launch_copy(from, out, kBytes, shape, stream);
                   }});
    for (const DataType type : {DataType::float32, DataType::bfloat16}) {
      for (const std::size_t inputs : {2U, 8U}) {
        std::vector<const std::byte*> sources;
        for (std::size_t i = 0; i < inputs; ++i) sources.push_back(buffers[i].get());
        all.push_back(
            {fmt::format("sum of {} {}, {} blocks each", inputs, to_string(type), of_each),
             (static_cast<double>(inputs) + 1) * double(kBytes), [=](cudaStream_t stream) {
               return device::launch_combine(type, ReduceOp::sum, sources, out,
                                             kBytes / size_of(type), 1, shape, stream);
             }});
      }
    }
  }
  return all;
}

/// A team whose rank 0 is on the stream that is timed.
class TimedTeam {
 public:
  TimedTeam(std::uint32_t ranks, const std::vector<device::DeviceMemory>& buffers)
      : ranks_(ranks),
        buffers_(buffers),
        team_(value_or_throw(device::Team::make({ranks, 0, kWorkspaceBytes}))) {
    for (std::uint32_t rank = 1; rank < ranks; ++rank) {
      streams_.push_back(value_or_throw(device::make_stream()));
    }
  }

  /// Fails where the GPU does not run so many blocks at once, or slots take too much.
  Result<const device::LoadedProgram*> load(const Choice& choice) {
    Problem problem;
    problem.size = ranks_;
    problem.count = kBytes / 4;
    const auto schedule = [=](Rank rank) { return make_program(problem, choice, rank); };
    const auto lowered =
        device::lower({problem, choice, schedule, DataType::float32, ReduceOp::sum, {}});
    must(lowered ? Status() : tl::unexpected(lowered.error()));
    return team_->load(*lowered);
  }

  Status call(const device::LoadedProgram* program, cudaStream_t stream) {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      device::TeamCall call;
      call.rank = rank;
      call.program = program;
      call.input = buffers_[rank].get();
      call.output = buffers_[ranks_ + rank].get();
      call.stream = rank == 0 ? stream : streams_[rank - 1].get();
      CCOLL_TRY(team_->arrive(call));
    }
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) CCOLL_TRY(team_->leave(rank, soon));
    return {};
  }

  /// Every output's first and last bytes.
  bool is_right() const {
    float one = 0;
    std::memset(&one, kFill, sizeof one);
    const std::vector<float> expected(1 << 16, one * static_cast<float>(ranks_));
    std::vector<float> here(expected.size());
    const std::uint64_t bytes = here.size() * sizeof(float);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      for (const std::uint64_t at : {std::uint64_t{0}, kBytes - bytes}) {
        must(cuda_status(cudaMemcpy(here.data(), buffers_[ranks_ + rank].get() + at, bytes,
                                    cudaMemcpyDeviceToHost),
                         "reading an output"));
        if (std::memcmp(here.data(), expected.data(), bytes) != 0) return false;
      }
    }
    return true;
  }

 private:
  std::uint32_t ranks_;
  const std::vector<device::DeviceMemory>& buffers_;
  std::vector<device::OwnStream> streams_;
  std::unique_ptr<device::Team> team_;
};

class Figures {
 public:
  Figures(const PhaseContext& context, Findings& findings)
      : context_(context), findings_(findings), buffers_(make_buffers(16)) {}

  void run() {
    auto all = ceilings(buffers_);
    for (Candidate& each : kernels(buffers_)) all.push_back(std::move(each));
    clockwork_.run(all);
    for (const Candidate& each : all) tell(each, all[0]);
    for (const std::uint32_t ranks : {2U, 4U, 8U}) time_team(ranks);
  }

 private:
  /// Beside the floor: each input is read once and each output written once, as fast as who only
  /// reads and who only writes.
  void time_team(std::uint32_t ranks) {
    TimedTeam team(ranks, buffers_);
    auto all = ceilings(buffers_);
    const std::size_t first = all.size();
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::two_shot}) {
      for (const std::uint32_t blocks_each : {1U, 2U}) {
        for (const std::uint64_t slice_kib : {32U, 128U}) {
          add(all, team, ranks, {algorithm, lanes_of(ranks, blocks_each), (slice_kib << 10) / 4});
        }
      }
    }
    clockwork_.run(all);
    const double floor =
        ranks * (spread_of(all[1].seconds).median + spread_of(all[2].seconds).median);
    for (std::size_t i = first; i < all.size(); ++i) {
      tell(all[i], all[0]);
      const double times = spread_of(all[i].seconds).median / floor;
      std::printf("%s: %.3f times the floor\n", all[i].name.c_str(), times);
      context_.records.add({{"phase", context_.name},
                            {"what", "floor"},
                            {"name", all[i].name},
                            {"floor_s", floor},
                            {"times", times}});
    }
  }

  static std::uint16_t lanes_of(std::uint32_t ranks, std::uint32_t blocks_each) {
    return static_cast<std::uint16_t>(static_cast<std::uint32_t>(processors()) * blocks_each /
                                      ranks);
  }

  void add(std::vector<Candidate>& all, TimedTeam& team, std::uint32_t ranks,
           const Choice& choice) {
    const auto name =
        fmt::format("all_reduce of {} ranks by {}, {} lanes, slices of {} KiB", ranks,
                    to_string(choice.algorithm), choice.lanes, choice.slice_elems * 4 >> 10);
    const auto program = team.load(choice);
    if (!program) {
      std::printf("%s: not timed: %s\n", name.c_str(), program.error().message.c_str());
      return;
    }
    check(team, *program, name);
    all.push_back(
        {name, 2.0 * ranks * double(kBytes),
         [&team, made = *program](cudaStream_t stream) { return team.call(made, stream); }});
  }

  void check(TimedTeam& team, const device::LoadedProgram* program, const std::string& name) {
    findings_.tried();
    for (std::size_t i = 0; i < buffers_.size() / 2; ++i) {
      must(cuda_status(cudaMemset(buffers_[i].get(), kFill, kBytes), "filling an input"));
    }
    for (std::size_t i = buffers_.size() / 2; i < buffers_.size(); ++i) {
      must(cuda_status(cudaMemset(buffers_[i].get(), 0xee, kBytes), "poisoning an output"));
    }
    must(cuda_status(cudaDeviceSynchronize(), "filling buffers"));
    must(team.call(program, clockwork_.stream()));
    must(cuda_status(cudaDeviceSynchronize(), name));
    if (!team.is_right()) findings_.wrong(name + ": the sums are wrong");
  }

  void tell(const Candidate& each, const Candidate& ceiling) {
    const Spread spread = spread_of(each.seconds);
    const double rate = each.bytes / spread.median;
    const double part = rate / (ceiling.bytes / spread_of(ceiling.seconds).median);
    std::printf("%s: %.1f GB/s (%.1f to %.1f), %.3f of %s\n", each.name.c_str(), rate / 1e9,
                each.bytes / spread.high / 1e9, each.bytes / spread.low / 1e9, part,
                ceiling.name.c_str());
    std::fflush(stdout);
    context_.records.add({{"phase", context_.name},
                          {"what", "figure"},
                          {"name", each.name},
                          {"bytes", each.bytes},
                          {"low_s", spread.low},
                          {"median_s", spread.median},
                          {"high_s", spread.high},
                          {"of_ceiling", part}});
  }

  const PhaseContext& context_;
  Findings& findings_;
  std::vector<device::DeviceMemory> buffers_;
  Clockwork clockwork_;
};

}  // namespace

int run_figures(const PhaseContext& context) {
  Findings findings(context);
  Figures(context, findings).run();
  return findings.close("timed calls");
}

}  // namespace ccoll::gpu_check
