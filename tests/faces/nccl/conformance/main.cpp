// SPDX-License-Identifier: Apache-2.0
// Tests every operation x type x reduction x root of an nccl.h library, out of place and in place,
// in 1 to 4 processes of 1 to 4 ranks. Each element is checked against independent arithmetic.
//   nccl_conformance [--full] [--devices] [--layout PxR] [--mode MODE] [--seed N]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "nccl.h"
#include "ranks.hpp"

namespace {

using conformance::Layout;
using conformance::Mode;

constexpr Mode kModes[] = {Mode::threads, Mode::polled, Mode::grouped, Mode::init_all};

/// One layout of each kind, so that every number of ranks and every mode occurs.
std::vector<Layout> quick_layouts() {
  return {{1, 1, Mode::threads}, {1, 1, Mode::init_all}, {1, 2, Mode::polled},
          {1, 3, Mode::grouped}, {1, 4, Mode::threads},  {1, 4, Mode::init_all},
          {2, 1, Mode::threads}, {2, 2, Mode::grouped},  {3, 1, Mode::polled},
          {2, 3, Mode::threads}, {4, 1, Mode::threads},  {4, 2, Mode::grouped}};
}

void add_modes(std::vector<Layout>& all, int processes, int ranks) {
  for (const auto mode : kModes) {
    if (mode != Mode::init_all || processes == 1) all.push_back({processes, ranks, mode});
  }
}

std::vector<Layout> all_layouts() {
  std::vector<Layout> all;
  for (int processes = 1; processes <= 4; ++processes) {
    for (int ranks = 1; ranks <= 4; ++ranks) add_modes(all, processes, ranks);
  }
  return all;
}

int misused(const std::string& what) {
  std::fprintf(stderr,
               "nccl_conformance: %s\nusage: nccl_conformance [--full] [--devices] [--layout "
               "PROCESSESxRANKS] "
               "[--mode threads|polled|grouped|init_all] [--seed N]\n",
               what.c_str());
  return 2;
}

constexpr int kMost = 64;

struct Arguments {
  bool full = false;
  bool on_devices = false;
  int processes = 0;
  int ranks = 0;
  std::string mode;
  std::uint64_t seed = 1;
};

/// Describes errors in the arguments; empty if there are none.
std::string read(int count, char** values, Arguments& arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string option = values[i];
    if (option == "--full") {
      arguments.full = true;
      continue;
    }
    if (option == "--devices") {
      arguments.on_devices = true;
      continue;
    }
    if (i + 1 == count) return option + " is unknown or lacks its value";
    const char* const value = values[++i];
    if (option == "--layout") {
      const int numbers = std::sscanf(value, "%dx%d", &arguments.processes, &arguments.ranks);
      if (numbers != 2 || arguments.processes < 1 || arguments.ranks < 1 ||
          arguments.processes > kMost || arguments.ranks > kMost) {
        return "--layout is like 2x3, of 1 to 64 each";
      }
    } else if (option == "--mode") {
      arguments.mode = value;
    } else if (option == "--seed") {
      arguments.seed = std::strtoull(value, nullptr, 10);
    } else {
      return option + " is unknown";
    }
  }
  return {};
}

std::vector<Layout> layouts_of(const Arguments& arguments) {
  if (arguments.processes > 0) {
    std::vector<Layout> all;
    add_modes(all, arguments.processes, arguments.ranks);
    return all;
  }
  return arguments.full || !arguments.mode.empty() ? all_layouts() : quick_layouts();
}

}  // namespace

int main(int count, char** values) {
  Arguments arguments;
  if (const auto wrong = read(count, values, arguments); !wrong.empty()) return misused(wrong);
  if (!arguments.on_devices) ::setenv("CCOLL_NCCL_HOST", "1", 0);
  int version = 0;
  if (ncclGetVersion(&version) == ncclSuccess) std::printf("a library of version %d\n", version);
  int failed = 0;
  int done = 0;
  for (const auto& layout : layouts_of(arguments)) {
    if (!arguments.mode.empty() && arguments.mode != conformance::name(layout.mode)) continue;
    const auto begin = std::chrono::steady_clock::now();
    const bool well = conformance::run({.layout = layout,
                                        .full = arguments.full,
                                        .seed = arguments.seed,
                                        .on_devices = arguments.on_devices});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%-14s %s in %.1f s\n", layout.text().c_str(), well ? "right" : "WRONG",
                took.count());
    std::fflush(stdout);
    ++done;
    failed += well ? 0 : 1;
  }
  if (done == 0) return misused("no layout is so");
  return failed == 0 ? 0 : 1;
}
