// SPDX-License-Identifier: Apache-2.0
// Large calls of a team, compared with their floor: every input is read once and every output
// written once, as fast as plain reads and writes. They are also compared with a plain kernel with
// as many inputs and outputs, without waits between blocks.
#include <algorithm>

#include "gpu_check/figures/figure_kernels.hpp"
#include "gpu_check/figures/figures.hpp"
#include "gpu_check/phases/graph.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

const std::chrono::milliseconds kTeamLoad{testing::by_effort(0, 200, 200)};

/// A timed operation.
struct Operation {
  Kind kind;
  std::vector<Algorithm> algorithms;
  double target;               ///< multiple of the floor
  bool reads_all, writes_all;  ///< the larger buffer of all ranks, else of one
  bool is_copies = false;      ///< also as copies
};

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {Kind::all_reduce, {Algorithm::two_shot, Algorithm::ring}, 1.3, true, true},
      {Kind::all_to_all, {Algorithm::pairwise}, 1.3, true, true, true},
      {Kind::reduce_scatter, {Algorithm::one_shot, Algorithm::ring}, 1.3, true, false},
      {Kind::all_gather, {Algorithm::one_shot, Algorithm::ring}, 1.5, false, true, true},
      {Kind::broadcast, {Algorithm::linear, Algorithm::ring}, 1.5, false, true},
  };
  return all;
}

class LargeCalls {
 public:
  LargeCalls(const FigureBench& bench, const Ceilings& ceilings, std::uint32_t ranks)
      : bench_(bench),
        ceilings_(ceilings),
        team_(ranks, bench.buffers, bench.buffer_bytes),
        copying_(ranks, bench.buffers, bench.buffer_bytes, device::CopyUse::always) {}

  void time(const Operation& operation) {
    std::vector<Candidate> timed = {plain(operation)};
    for (const Algorithm algorithm : operation.algorithms) {
      for (const std::uint32_t blocks_each :
           testing::reduced() ? std::vector{1U} : std::vector{1U, 2U}) {
        for (const std::uint64_t slice_kib :
             testing::reduced() ? std::vector{32U} : std::vector{32U, 128U})
          add(timed, operation, {algorithm, lanes(blocks_each), (slice_kib << 10) / 4});
      }
    }
    const std::size_t by_kernel = timed.size();
    if (operation.is_copies) add_copies(timed, operation);
    bench_.clockwork.run(timed, kTeamLoad);
    for (const Candidate& each : timed) bench_.book.rate(each, timed[0]);
    if (by_kernel == 1) return;
    const auto best = std::ranges::min_element(
        timed.begin() + 1, timed.begin() + static_cast<std::ptrdiff_t>(by_kernel), {}, median_of);
    const double floor = reads(operation) * ceilings_.read + writes(operation) * ceilings_.write;
    const auto name = fmt::format("{} of {} ranks, {} MiB", to_string(operation.kind),
                                  team_.ranks(), bench_.buffer_bytes >> 20);
    bench_.book.result({name, median_of(*best) / floor, "the floor", operation.target});
    bench_.book.result({name, median_of(*best) / median_of(timed[0]), "a plain kernel"});
    if (timed.size() == by_kernel) return;
    const double copied = median_of(timed.back());
    bench_.book.result({name + ", by copies", copied / floor, "the floor"});
    bench_.book.result({name + ", by copies", copied / median_of(*best), "the team's kernel"});
  }

 private:
  double reads(const Operation& of) const { return bytes_of(of.reads_all); }
  double writes(const Operation& of) const { return bytes_of(of.writes_all); }
  double bytes_of(bool all) const {
    return static_cast<double>(bench_.buffer_bytes) * (all ? team_.ranks() : 1);
  }
  std::uint16_t lanes(std::uint32_t blocks_each) const {
    const std::uint32_t blocks = static_cast<std::uint32_t>(bench_.processors) * blocks_each;
    return static_cast<std::uint16_t>(std::max(blocks / team_.ranks(), 1U));
  }

  Candidate plain(const Operation& of) const {
    Fan fan;
    fan.input_count = of.reads_all ? team_.ranks() : 1;
    fan.output_count = of.writes_all ? team_.ranks() : 1;
    fan.words = bench_.buffer_bytes / 16;
    for (std::uint32_t i = 0; i < fan.input_count; ++i) fan.inputs[i] = team_.input(i);
    for (std::uint32_t i = 0; i < fan.output_count; ++i) fan.outputs[i] = team_.output(i);
    const auto grid = dim3(static_cast<unsigned>(bench_.processors * 4));
    return {fmt::format("a plain kernel of {} inputs and {} outputs", fan.input_count,
                        fan.output_count),
            reads(of) + writes(of), [=](cudaStream_t stream) {
              Fan given = fan;
              void* arguments[] = {&given};
              return device::cuda_status(
                  cudaLaunchKernel(fan_kernel(), grid, dim3(512), arguments, 0, stream),
                  "launching a plain kernel");
            }};
  }

  void add(std::vector<Candidate>& timed, const Operation& of, const Choice& choice) {
    add(timed, of, choice, team_,
        fmt::format("{} of {} ranks by {}, {} lanes, slices of {} KiB", to_string(of.kind),
                    team_.ranks(), to_string(choice.algorithm), choice.lanes,
                    choice.slice_elems * 4 >> 10));
  }

  /// The loaded kernel is the smallest, and is never launched.
  void add_copies(std::vector<Candidate>& timed, const Operation& of) {
    add(timed, of, {of.algorithms[0], 1, (32 << 10) / 4}, copying_,
        fmt::format("{} of {} ranks by copies", to_string(of.kind), team_.ranks()));
  }

  void add(std::vector<Candidate>& timed, const Operation& of, const Choice& choice,
           TimedTeam& team, const std::string& name) {
    const auto program = team.load(of.kind, choice, bench_.buffer_bytes);
    if (!program) return bench_.book.skip(name, program.error().message);
    bench_.book.judge(team.wrong(*program, bench_.clockwork.stream()), name);
    timed.push_back({name, reads(of) + writes(of), [&team, made = *program](cudaStream_t stream) {
                       return team.call(made, stream);
                     }});
  }

  const FigureBench& bench_;
  const Ceilings ceilings_;
  TimedTeam team_;     ///< uses its kernel
  TimedTeam copying_;  ///< uses copies
};

}  // namespace

void time_teams(const FigureBench& bench, const Ceilings& ceilings) {
  for (const std::uint32_t ranks : {2U, 4U, 8U}) {
    LargeCalls calls(bench, ceilings, ranks);
    for (const Operation& operation : operations()) {
      if (is_late())
        bench.book.leave_out(fmt::format("{} of {} ranks", to_string(operation.kind), ranks));
      else
        calls.time(operation);
    }
  }
}

}  // namespace ccoll::gpu_check
