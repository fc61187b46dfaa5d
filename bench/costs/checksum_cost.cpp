// SPDX-License-Identifier: Apache-2.0
/// The cost of checksums (CommunicatorOptions::checksum): the same all_reduce over TCP on two
/// communicators of the same ranks, with and without; and the speed of computing them.
///
///     cc-run -n 2 checksum-cost
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "bench/costs/no_arguments.hpp"
#include "bench/costs/side_by_side.hpp"
#include "core/crc32c.hpp"

namespace {

using ccoll::Communicator;
using ccoll::bench::quantile;

constexpr int kRounds = 101;
constexpr std::size_t kSizes[] = {8, 512, 4 << 10, 64 << 10, 1 << 20, 16 << 20};

/// GB/s of one core, over bytes that stay in a cache.
double speed(const ccoll::detail::Crc32cMethod& way) {
  const std::vector<std::byte> slice(128 << 10, std::byte{1});
  std::vector<double> speeds;
  std::uint32_t crc = 0;
  for (int round = 0; round < 200; round++) {
    const auto begin = std::chrono::steady_clock::now();
    crc = way.compute(crc, slice.data(), slice.size());
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    speeds.push_back(static_cast<double>(slice.size()) / took.count());
  }
  // The result is used, so that it is computed.
  return crc == 0 ? 0 : quantile(speeds, 0.5);
}

void run() {
  auto options = ccoll::CommunicatorOptions::from_environment();
  options.transport = "tcp";
  options.checksum = false;
  auto plain = Communicator::create(options);
  auto world = plain.duplicate();
  options.checksum = true;
  auto checked = Communicator::create(options);
  const bool speaks = world.rank() == 0;
  if (speaks) {
    for (const auto& way : ccoll::detail::crc32c_methods())
      fmt::print("crc32c by {}: {:.1f} GB/s\n", way.name, speed(way));
    fmt::print(
        "all_reduce of float32 over TCP, {} ranks, {} rounds: of all and of the fastest "
        "tenth\n{:>9}{:>12}{:>12}{:>8}{:>17}{:>13}{:>12}{:>8}\n",
        world.size(), kRounds, "bytes", "median us", "checked", "ratio", "(middle half)",
        "fastest us", "checked", "ratio");
  }
  for (const std::size_t bytes : kSizes) {
    const auto times =
        ccoll::bench::measure_all_reduce(world, plain, checked, bytes / sizeof(float), kRounds);
    if (!speaks) continue;
    const double fast = quantile(times.plain_us, 0.1), fast_checked = quantile(times.other_us, 0.1);
    fmt::print(
        "{:>9}{:>12.2f}{:>12.2f}{:>8.3f}{:>17}{:>13.2f}{:>12.2f}{:>8.3f}\n", bytes,
        quantile(times.plain_us, 0.5), quantile(times.other_us, 0.5), quantile(times.ratios, 0.5),
        fmt::format("{:.3f} to {:.3f}", quantile(times.ratios, 0.25), quantile(times.ratios, 0.75)),
        fast, fast_checked, fast_checked / fast);
  }
}

}  // namespace

int main(int count, char** values) {
  if (const auto status = ccoll::bench::not_to_run(count, values, "cc-run -n 2 checksum-cost"))
    return *status;
  try {
    run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "checksum-cost: {}\n", error.what());
    return 1;
  }
}
