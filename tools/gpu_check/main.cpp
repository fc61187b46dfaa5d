// SPDX-License-Identifier: Apache-2.0
// The program of a bundle that tools/gpu-check makes: runs every check there is on the first GPU.
#include <cuda_runtime_api.h>
#include <sys/random.h>

#include <charconv>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "children.hpp"
#include "core/text.hpp"
#include "phases.hpp"
#include "report.hpp"
#include "runner.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

constexpr std::uint64_t kMostSeconds = 24 * 60 * 60;

struct Row {
  const char* name;
  int limit_s;
  int (*run)(const PhaseContext&);
};

// What proves rightness first; last what may leave the GPU the worse for it.
constexpr Row kPhases[] = {
    {"probe", 30, run_probe},         {"kernels", 60, run_kernels},
    {"teams", 100, run_teams},        {"graphs", 80, run_graphs},
    {"processes", 80, run_processes}, {"communicators", 80, run_communicators},
    {"adversary", 80, run_adversary}, {"sanitizers", 120, run_sanitizers},
    {"figures", 120, run_figures},    {"faults", 80, run_faults},
};

/// A phase's other processes, but for probe's.
struct Peer {
  const char* kind;
  int (*run)(const std::string& handle);
};

constexpr Peer kPeers[] = {
    {"process", run_process}, {"communicator", run_communicator}, {"graph", run_graph},
    {"fault", run_fault},     {"sanitized", run_sanitized},
};

struct Arguments {
  RunOptions run;
  std::uint64_t seed = 0;
  bool mps = false;
  std::string phase;         ///< this is the child that runs it
  std::string kind, handle;  ///< this is a phase's other process
};

/// "probe, kernels, …".
std::string phase_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kPhases) names.push_back(row.name);
  return joined(names);
}

std::string usage() {
  return fmt::format(
      "usage: run --out DIR [--budget SECONDS] [--only PHASE,...] [--seed N] [--mps]\n"
      "Checks ccoll on this machine's first GPU, for at most SECONDS (540), and writes\n"
      "DIR/results.jsonl as it goes, at the end DIR/table.md. Status 0, 1 if anything is wrong\n"
      "or nothing has passed, 77 if there is no GPU that CUDA can use. A phase that did not run\n"
      "to its end is incomplete, not passed. --mps runs the several processes by NVIDIA's\n"
      "Multi-Process Service, too. Phases: {}\n",
      phase_names());
}

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "run: %s\n%s", why.c_str(), usage().c_str());
  std::exit(2);
}

std::uint64_t number(const std::string& option, const std::string& text, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) {
    refuse(fmt::format("{} {}: expected a number from 0 to {}", option, text, most));
  }
  return value;
}

std::vector<std::string> names(const std::string& list) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    all.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  for (const std::string& name : all) {
    bool known = false;
    for (const Row& row : kPhases) known |= name == row.name;
    if (!known) refuse(fmt::format("no phase '{}': there are {}", name, phase_names()));
  }
  return all;
}

/// Not by std::random_device, which would ask for a newer glibc than all else does.
std::uint64_t random_seed() {
  std::uint32_t seed = 1;
  return getrandom(&seed, sizeof seed, 0) == sizeof seed ? seed : 1;
}

Arguments parse(int count, char** given) {
  Arguments arguments;
  arguments.seed = random_seed();
  for (int i = 1; i < count; ++i) {
    const std::string option = given[i];
    if (option == "--help" || option == "-h") {
      std::fputs(usage().c_str(), stdout);
      std::exit(0);
    }
    if (option == "--mps") {
      arguments.mps = true;
      continue;
    }
    if (i + 1 == count) refuse(fmt::format("{}: no such option, or nothing behind it", option));
    const std::string value = given[++i];
    if (option == "--out") {
      arguments.run.out = value;
    } else if (option == "--budget") {
      arguments.run.budget = std::chrono::seconds(number(option, value, kMostSeconds));
    } else if (option == "--only") {
      arguments.run.only = names(value);
    } else if (option == "--seed") {
      arguments.seed = number(option, value, UINT64_MAX);
    } else if (option == "--phase") {
      arguments.phase = value;
    } else if (option == "--peer-of" && i + 1 < count) {
      arguments.kind = value;
      arguments.handle = given[++i];
    } else {
      refuse(fmt::format("no option {}", option));
    }
  }
  if (arguments.run.out.empty() && arguments.kind.empty()) refuse("--out DIR is missing");
  return arguments;
}

/// The first GPU, in use from here on; kNoDevice with CUDA's own words.
int open_device() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) error = cudaSetDevice(0);
  if (error == cudaSuccess) return kPassed;
  std::printf("no GPU that CUDA can use: %s (%s)\n", cudaGetErrorString(error),
              cudaGetErrorName(error));
  return kNoDevice;
}

int run_phase(const Arguments& arguments) {
  for (const Row& row : kPhases) {
    if (arguments.phase != row.name) continue;
    // As many of the device's queues as there can be: streams that share one wait for one another,
    // and so would ranks that are threads.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (const int status = open_device(); status != kPassed) return status;
    try {
      const Records records(arguments.run.out + "/results.jsonl");
      return row.run({arguments.phase, records, arguments.seed, arguments.run.out, arguments.mps});
    } catch (const NotRecorded& error) {
      std::printf("%s\n", error.what());
      return kIncomplete;
    }
  }
  refuse(fmt::format("no phase '{}'", arguments.phase));
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text).flush()) throw NotRecorded(path);
}

int run_all(const Arguments& arguments) {
  std::vector<Phase> phases;
  for (const Row& row : kPhases) {
    Phase& phase = phases.emplace_back();
    phase.name = row.name;
    phase.limit = std::chrono::seconds(row.limit_s);
    phase.command = {own_path(),
                     "--phase",
                     row.name,
                     "--out",
                     arguments.run.out,
                     "--seed",
                     fmt::format("{}", arguments.seed)};
    if (arguments.mps) phase.command.push_back("--mps");
  }
  std::printf("seed %llu, %lld s\n", static_cast<unsigned long long>(arguments.seed),
              static_cast<long long>(arguments.run.budget.count()));
  if (testing::reduced()) std::printf("a small part of it all: CCOLL_TEST_REDUCED is set\n");
  std::fflush(stdout);
  const std::string results = arguments.run.out + "/results.jsonl";
  std::error_code none_yet;
  const auto before = std::filesystem::file_size(results, none_yet);
  const auto endings = run_phases(phases, arguments.run);
  const auto records = read_records(results, none_yet ? 0 : before);
  int status = status_of(endings);
  try {
    write_text(arguments.run.out + "/table.md", report(today(), endings, records));
  } catch (const NotRecorded& error) {
    std::printf("%s\n", error.what());
    status = kWrong;
  }
  // Of a run on another machine often nothing but the last 60 lines come back.
  constexpr std::size_t kMostFigures = 45;
  std::fputs((figures(records, kMostFigures) + table(endings)).c_str(), stdout);
  return status;
}

int run(const Arguments& arguments) {
  for (const Peer& peer : kPeers) {
    if (arguments.kind != peer.kind) continue;
    const int status = open_device();
    return status == kPassed ? peer.run(arguments.handle) : status;
  }
  if (!arguments.kind.empty()) return read_as_peer(arguments.kind, arguments.handle);
  return arguments.phase.empty() ? run_all(arguments) : run_phase(arguments);
}

}  // namespace
}  // namespace ccoll::gpu_check

int main(int count, char** given) {
  try {
    return ccoll::gpu_check::run(ccoll::gpu_check::parse(count, given));
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return ccoll::gpu_check::kWrong;
  }
}
