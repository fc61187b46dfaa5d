// SPDX-License-Identifier: Apache-2.0
/// The cost of CCOLL_TRACE: the same all_reduce on two communicators of the same ranks, one traced
/// and one not.
///
///     cc-run -n 2 trace-cost
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/costs/no_arguments.hpp"
#include "bench/costs/side_by_side.hpp"
#include "ccoll/ccoll.hpp"
#include "trace/read.hpp"

namespace {

namespace fs = std::filesystem;
using ccoll::Communicator;
using ccoll::bench::measure_all_reduce;
using ccoll::bench::quantile;
using ccoll::bench::SideBySide;

constexpr int kRounds = 201;
constexpr std::size_t kSizes[] = {8, 512, 4 << 10, 64 << 10, 1 << 20};

/// A folder of this rank, removed with this.
class TraceFolder {
 public:
  TraceFolder() : path_((fs::temp_directory_path() / "ccoll-trace-cost-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  ~TraceFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The number of steps per such call in the trace.
double steps_per_call(const ccoll::trace::Trace& trace, std::size_t count) {
  std::size_t calls = 0, steps = 0;
  for (const auto& call : trace.calls) {
    if (call.signature.count != count) continue;
    calls++;
    steps += call.steps.size();
  }
  return static_cast<double>(steps) / static_cast<double>(std::max<std::size_t>(calls, 1));
}

/// On a shared machine the fastest batches are more meaningful than the median.
void print(const std::vector<SideBySide>& all, const ccoll::trace::Trace& trace) {
  fmt::print("all_reduce of float32, {} ranks, {} rounds: of all and of the fastest tenth\n",
             trace.about.size, kRounds);
  fmt::print("{:>9}{:>12}{:>12}{:>8}{:>17}{:>7}{:>13}{:>13}{:>8}{:>10}\n", "bytes", "median us",
             "traced", "ratio", "(middle half)", "steps", "fastest us", "traced", "ratio",
             "ns/step");
  for (std::size_t i = 0; i < all.size(); i++) {
    const auto& times = all[i];
    const double steps = steps_per_call(trace, kSizes[i] / sizeof(float));
    const double plain = quantile(times.plain_us, 0.1), traced = quantile(times.other_us, 0.1);
    fmt::print(
        "{:>9}{:>12.3f}{:>12.3f}{:>8.3f}{:>17}{:>7.0f}{:>13.3f}{:>13.3f}{:>8.3f}{:>10.0f}\n",
        kSizes[i], quantile(times.plain_us, 0.5), quantile(times.other_us, 0.5),
        quantile(times.ratios, 0.5),
        fmt::format("{:.3f} to {:.3f}", quantile(times.ratios, 0.25), quantile(times.ratios, 0.75)),
        steps, plain, traced, traced / plain, (traced - plain) * 1000 / steps);
  }
}

void run() {
  const TraceFolder folder;
  unsetenv("CCOLL_TRACE");
  auto world = Communicator::create();
  auto plain = world.duplicate({.name = "plain"});
  setenv("CCOLL_TRACE", folder.path().c_str(), 1);
  std::vector<SideBySide> all;
  const int rank = world.rank();
  {
    auto traced = world.duplicate({.name = "traced"});
    unsetenv("CCOLL_TRACE");
    for (const std::size_t bytes : kSizes)
      all.push_back(measure_all_reduce(world, plain, traced, bytes / sizeof(float), kRounds));
  }
  if (rank != 0) return;
  for (const auto& file : fs::directory_iterator(folder.path())) {
    const auto trace = ccoll::value_or_throw(ccoll::trace::read_trace(file.path()));
    print(all, trace);
  }
}

}  // namespace

int main(int count, char** values) {
  if (const auto status = ccoll::bench::not_to_run(count, values, "cc-run -n 2 trace-cost"))
    return *status;
  try {
    run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "trace-cost: {}\n", error.what());
    return 1;
  }
}
