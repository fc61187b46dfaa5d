// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/figures/figures.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "gpu_check/figures/figure_kernels.hpp"
#include "gpu_check/phases/graph.hpp"
#include "kernels/device/launch.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

const std::uint64_t kTeamBytes = testing::by_effort<std::uint64_t>(1 << 20, 1 << 30, 1 << 30);
const std::uint64_t kKernelBytes = kTeamBytes / 4;
const std::chrono::milliseconds kLoad{testing::by_effort(0, 2000, 2000)};
/// For ceilings, from the beginning of the run to its end.
constexpr double kMostDrift = 0.05;
/// The share of a large cudaMemcpy's rate that kernels must reach.
constexpr double kKernelTarget = 0.9;

int processors() {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
        "asking for multiprocessors");
  return count;
}

/// For 8 ranks' inputs and outputs, as large as the GPU's memory allows.
std::pair<Buffers, std::uint64_t> all_buffers() {
  for (std::uint64_t bytes = kTeamBytes;; bytes /= 4) {
    auto made = make_buffers(16, bytes);
    if (made) return {std::move(*made), bytes};
    if (made.error().kind != ErrorKind::exhausted || bytes <= kKernelBytes) raise(made.error());
  }
}

/// The device's ceilings, measured at the beginning and at the end.
class CeilingTimes {
 public:
  CeilingTimes(const Buffers& buffers, int processors) {
    std::byte* const a = buffers[0].get();
    std::byte* const b = buffers[1].get();
    const auto grid = dim3(static_cast<unsigned>(processors * 4));
    const auto bytes = static_cast<double>(kKernelBytes);
    timed_.push_back({"cudaMemcpy", 2 * bytes, [=](cudaStream_t stream) {
                        return device::cuda_status(
                            cudaMemcpyAsync(b, a, kKernelBytes, cudaMemcpyDeviceToDevice, stream),
                            "copying");
                      }});
    timed_.push_back({"cudaMemset", bytes, [=](cudaStream_t stream) {
                        return device::cuda_status(cudaMemsetAsync(b, kFill, kKernelBytes, stream),
                                                   "writing");
                      }});
    timed_.push_back({"reading", bytes, [=](cudaStream_t stream) {
                        const void* from = a;
                        void* out = b;
                        std::uint64_t words = kKernelBytes / 16;
                        void* each[] = {&from, &words, &out};
                        return device::cuda_status(
                            cudaLaunchKernel(read_kernel(), grid, dim3(512), each, 0, stream),
                            "reading");
                      }});
  }

  std::vector<Candidate>& timed() { return timed_; }
  const Candidate& copy() const { return timed_[0]; }
  Ceilings per_byte() const {
    return {median_of(timed_[2]) / timed_[2].bytes, median_of(timed_[1]) / timed_[1].bytes};
  }
  /// The largest change of any ceiling, and that ceiling's name.
  std::pair<double, std::string> drift_to(const CeilingTimes& later) const {
    std::pair<double, std::string> most{0, ""};
    for (std::size_t i = 0; i < timed_.size(); ++i) {
      const double change = std::abs(median_of(later.timed_[i]) / median_of(timed_[i]) - 1);
      most = std::max(most, {change, timed_[i].name});
    }
    return most;
  }

 private:
  std::vector<Candidate> timed_;
};

/// The launches to try for each task.
using Kernels = std::map<std::string, std::vector<Candidate>>;

Kernels kernels(const Buffers& buffers, int processors) {
  Kernels all;
  const auto bytes = static_cast<double>(kKernelBytes);
  for (const std::uint32_t of_each : {1U, 2U, 4U}) {
    const device::LaunchShape shape{static_cast<std::uint32_t>(processors) * of_each, 512};
    const auto name = [=](const std::string& what) {
      return fmt::format("{}, {} blocks each", what, of_each);
    };
    std::byte* const out = buffers.back().get();
    all["copy"].push_back(
        {name("copy"), 2 * bytes, [=, from = buffers[0].get()](cudaStream_t stream) {
           return device::launch_copy(from, out, kKernelBytes, shape, stream);
         }});
    for (const DataType type : {DataType::float32, DataType::bfloat16}) {
      for (const std::size_t inputs : {2U, 8U}) {
        std::vector<const std::byte*> sources;
        for (std::size_t i = 0; i < inputs; ++i) sources.push_back(buffers[i].get());
        const auto what = fmt::format("sum of {} {}", inputs, to_string(type));
        all[what].push_back(
            {name(what), static_cast<double>(inputs + 1) * bytes, [=](cudaStream_t stream) {
               return device::launch_combine(type, ReduceOp::sum, sources, out,
                                             kKernelBytes / size_of(type), 1, shape, stream);
             }});
      }
    }
  }
  return all;
}

void time_kernels(const FigureBench& bench, CeilingTimes& ceilings) {
  auto all = kernels(bench.buffers, bench.processors);
  std::vector<Candidate> timed = ceilings.timed();
  for (const auto& [what, tries] : all) timed.insert(timed.end(), tries.begin(), tries.end());
  bench.clockwork.run(timed, kLoad);
  std::copy_n(timed.begin(), ceilings.timed().size(), ceilings.timed().begin());
  for (const Candidate& each : timed) bench.book.rate(each, ceilings.copy());
  auto next = timed.begin() + static_cast<long>(ceilings.timed().size());
  const double copy_rate = ceilings.copy().bytes / median_of(ceilings.copy());
  for (const auto& [what, tries] : all) {
    double best = 0;
    for (std::size_t i = 0; i < tries.size(); ++i, ++next)
      best = std::max(best, next->bytes / median_of(*next) / copy_rate);
    bench.book.result({what, best, "cudaMemcpy's rate", kKernelTarget, true});
  }
}

}  // namespace

void FigureBook::rate(const Candidate& timed, const Candidate& ceiling) {
  const Spread spread = spread_of(timed.seconds);
  const double rate = timed.bytes / spread.median;
  const double part = rate / (ceiling.bytes / median_of(ceiling));
  std::printf("%s: %.1f GB/s (%.1f to %.1f), %.3f of %s\n", timed.name.c_str(), rate / 1e9,
              timed.bytes / spread.high / 1e9, timed.bytes / spread.low / 1e9, part,
              ceiling.name.c_str());
  std::fflush(stdout);
  context_.records.add({{"phase", context_.name},
                        {"what", "figure"},
                        {"name", timed.name},
                        {"bytes", timed.bytes},
                        {"low_s", spread.low},
                        {"median_s", spread.median},
                        {"high_s", spread.high},
                        {"of_ceiling", part}});
}

void FigureBook::result(const Result& result) {
  nlohmann::json record = {{"phase", context_.name},
                           {"what", "result"},
                           {"name", result.name},
                           {"measured", result.measured},
                           {"unit", result.unit}};
  std::string target;
  if (result.target) {
    record.update({{"target", *result.target}, {"is_least", result.is_least}});
    target = fmt::format(", to be at {} {:g}", result.is_least ? "least" : "most", *result.target);
  }
  std::printf("%s: %.3f x %s%s\n", result.name.c_str(), result.measured, result.unit.c_str(),
              target.c_str());
  std::fflush(stdout);
  context_.records.add(record);
}

void FigureBook::skip(const std::string& name, const std::string& why) {
  std::printf("%s: not timed: %s\n", name.c_str(), why.c_str());
}

void FigureBook::judge(const std::string& wrong, const std::string& name) {
  findings_.tried();
  if (!wrong.empty()) findings_.wrong(fmt::format("{}: {}", name, wrong));
}

int run_figures(const PhaseContext& context) {
  Findings findings(context);
  FigureBook book(context, findings);
  Clockwork clockwork(testing::by_effort(1, 15, 15));
  const auto [buffers, bytes] = all_buffers();
  for (const auto& each : buffers) check(cudaMemset(each.get(), kFill, bytes), "filling buffers");
  const FigureBench bench{book, clockwork, buffers, bytes, processors()};
  CeilingTimes first(buffers, bench.processors);
  time_kernels(bench, first);
  time_small_calls(bench);
  time_teams(bench, first.per_byte());
  CeilingTimes last(buffers, bench.processors);
  clockwork.run(last.timed(), kLoad / 4);
  const auto [drift, which] = first.drift_to(last);
  const bool is_void = drift > kMostDrift;
  context.records.add(
      {{"phase", context.name}, {"what", "drift"}, {"of", which}, {"change", drift}});
  const int status = findings.close("timed calls");
  if (status != kPassed || !is_void) return status;
  std::printf("void: from beginning to end %s changed by %.1f %%\n", which.c_str(), 100 * drift);
  return kIncomplete;
}

}  // namespace ccoll::gpu_check
