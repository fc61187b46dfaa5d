// SPDX-License-Identifier: Apache-2.0
// The program of tools/gpu-check's bundle: runs every check on the first GPU.
#include <cuda_runtime_api.h>
#include <sys/random.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>

#include "core/text.hpp"
#include "gpu_check/children.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/report.hpp"
#include "gpu_check/runner.hpp"
#include "gpu_check/runs.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

constexpr std::uint64_t kMostSeconds = 24 * 60 * 60;

struct Row {
  const char* name;
  int limit_s;
  int (*run)(const PhaseContext&);
};

// The order is that of a run; the limits (seconds) allow for a slow GPU.
constexpr Row kPhases[] = {
    {"first", 30, run_first},
    {"probe", 40, run_probe},
    {"kernels", 40, run_kernels},
    {"teams", 70, run_teams},
    {"communicators", 60, run_communicators},
    {"processes", 70, run_processes},
    {"ways", 60, run_ways},
    {"faults", 60, run_faults},
    {"graphs", 60, run_graphs},
    {"adversary", 50, run_adversary},
    {"sanitizers", 100, run_sanitizers},
    {"figures", 180, run_figures},
    {"nccl", 100, run_nccl},
    {"torch", 120, run_torch},
    {"cupy", 40, run_cupy},
    {"arrays", 65, run_arrays},
    {"backend", 60, run_backend},
};
constexpr Row kHealth = {"health", 40, run_health};

/// A phase's other processes, except probe's.
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
  std::string name = "all";  ///< of the run
  std::uint64_t seed = 0;
  std::uint64_t patience = 1;  ///< multiplies the limits of phases
  bool mps = false;
  std::string command;
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
      "usage: run --out DIR [--run NAME | --only PHASE,...] [--budget SECONDS] [--seed N]\n"
      "           [--patience N] [--mps]\n"
      "       run --plan | --runs\n"
      "Checks ccoll on this machine's first GPU, for at most SECONDS (540; of a run its own\n"
      "limit), prints what is found as it is known, and writes DIR/NAME.json, DIR/table.md,\n"
      "DIR/log.txt and DIR/results.jsonl as it goes. Status 0, 1 if anything is wrong or\n"
      "nothing has passed, 77 if there is no GPU that CUDA can use. A phase that did not run\n"
      "to its end is incomplete, not passed. --mps runs the several processes by NVIDIA's\n"
      "Multi-Process Service, too; --patience gives phases N times as long. --plan says what\n"
      "to run first, --runs lists the runs that there are, with their limits. Phases: {}\n",
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

/// Selects the phases of a run, with its limit as budget.
void take_run(const std::string& name, Arguments& arguments) {
  const auto runs = all_runs();
  const auto found = std::ranges::find(runs, name, &Run::name);
  std::vector<std::string_view> known;
  for (const Run& each : runs) known.push_back(each.name);
  if (found == runs.end()) refuse(fmt::format("no run '{}': there are {}", name, joined(known)));
  arguments.name = name;
  arguments.run.only.assign(found->phases.begin(), found->phases.end());
  arguments.run.budget = std::chrono::seconds(found->limit_s);
}

/// Avoids std::random_device, which would require a newer glibc than anything else here.
std::uint64_t random_seed() {
  std::uint32_t seed = 1;
  return getrandom(&seed, sizeof seed, 0) == sizeof seed ? seed : 1;
}

Arguments parse(int count, char** given) {
  Arguments arguments;
  std::optional<std::chrono::seconds> budget;
  arguments.seed = random_seed();
  for (int i = 0; i < count; ++i) arguments.command += (i == 0 ? "" : " ") + std::string(given[i]);
  for (int i = 1; i < count; ++i) {
    const std::string option = given[i];
    if (option == "--help" || option == "-h") {
      std::fputs(usage().c_str(), stdout);
      std::exit(0);
    }
    if (option == "--plan") {
      std::fputs(plan().c_str(), stdout);
      std::exit(0);
    }
    if (option == "--runs") {
      for (const Run& each : all_runs()) std::printf("%s %d\n", each.name.data(), each.limit_s);
      std::exit(0);
    }
    if (option == "--mps") {
      arguments.mps = true;
      continue;
    }
    if (i + 1 == count)
      refuse(fmt::format("{}: the option is unknown, or its value is missing", option));
    const std::string value = given[++i];
    if (option == "--out") {
      arguments.run.out = value;
    } else if (option == "--run") {
      take_run(value, arguments);
    } else if (option == "--budget") {
      budget = std::chrono::seconds(number(option, value, kMostSeconds));
    } else if (option == "--patience") {
      arguments.patience = number(option, value, 100);
    } else if (option == "--only") {
      arguments.name = "some";
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
  if (budget) arguments.run.budget = *budget;
  return arguments;
}

/// A hint on missing components, as far as they can be determined.
std::string advice() {
  int driver = 0, needed = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || cudaRuntimeGetVersion(&needed) != cudaSuccess)
    return "";
  if (driver == 0) return ": there is no driver";
  if (driver / 1000 >= needed / 1000) return "";
  return fmt::format(
      ": the driver is for CUDA {}.{}, and this program needs one for CUDA {}.0 or newer (13.0: "
      "series 580). Without it there is only NVIDIA's package cuda-compat-{}-0, on GPUs of data "
      "centres, with its folder in LD_LIBRARY_PATH",
      driver / 1000, driver % 1000 / 10, needed / 1000, needed / 1000);
}

/// Makes the first GPU current; returns kNoDevice with CUDA's text on failure.
int open_device() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) error = cudaSetDevice(0);
  if (error == cudaSuccess) return kPassed;
  std::printf("no GPU that CUDA can use: %s (%s)%s\n", cudaGetErrorString(error),
              cudaGetErrorName(error), advice().c_str());
  return kNoDevice;
}

int run_phase(const Arguments& arguments) {
  std::vector<Row> rows(std::begin(kPhases), std::end(kPhases));
  rows.push_back(kHealth);
  for (const Row& row : rows) {
    if (arguments.phase != row.name) continue;
    // Use as many device queues as possible: streams that share one wait for one another, and so
    // would ranks that are threads.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (const int status = open_device(); status != kPassed) return status;
    try {
      const Records records(arguments.run.out + "/results.jsonl");
      return row.run({arguments.phase, records, arguments.seed, arguments.run.out, arguments.mps,
                      arguments.patience});
    } catch (const NotRecorded& error) {
      std::printf("%s\n", error.what());
      return kIncomplete;
    }
  }
  refuse(fmt::format("no phase '{}'", arguments.phase));
}

std::string now() {
  const std::time_t now = std::time(nullptr);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", std::gmtime(&now));
  return text;
}

/// The commit from which the bundle was made.
std::string commit() {
  std::ifstream file(std::filesystem::path(own_path()).parent_path() / "commit");
  std::string text;
  return std::getline(file, text) ? text : "unknown";
}

/// Writes the file as a whole, even if the run is cut.
void write_text(const std::string& path, const std::string& text) {
  const std::string next = path + ".new";
  std::ofstream file(next);
  if (!(file << text).flush()) throw NotRecorded(path);
  file.close();
  if (std::rename(next.c_str(), path.c_str()) != 0) throw NotRecorded(path);
}

/// The documents of all runs in this folder.
std::vector<nlohmann::json> documents_in(const std::string& out) {
  std::map<std::string, nlohmann::json> by_name;
  for (const auto& file : std::filesystem::directory_iterator(out)) {
    if (file.path().extension() != ".json") continue;
    std::ifstream text(file.path());
    auto made = nlohmann::json::parse(text, nullptr, false);
    if (made.is_object()) by_name[file.path()] = std::move(made);
  }
  std::vector<nlohmann::json> all;
  for (auto& [name, made] : by_name) all.push_back(std::move(made));
  return all;
}

Phase phase_of(const Row& row, const Arguments& arguments) {
  Phase phase;
  phase.name = row.name;
  phase.limit = std::chrono::seconds(row.limit_s * static_cast<int>(arguments.patience));
  phase.command = {own_path(),
                   "--phase",
                   row.name,
                   "--out",
                   arguments.run.out,
                   "--seed",
                   fmt::format("{}", arguments.seed),
                   "--patience",
                   fmt::format("{}", arguments.patience)};
  if (arguments.mps) phase.command.push_back("--mps");
  return phase;
}

/// The phases of a run in its order, or all phases in the order of runs.
std::vector<Phase> phases_of(const Arguments& arguments) {
  std::vector<Phase> phases;
  for (const Row& row : kPhases) {
    const bool is_of_run =
        arguments.name == "all" ||
        std::ranges::find(arguments.run.only, row.name) != arguments.run.only.end();
    if (is_of_run) phases.push_back(phase_of(row, arguments));
  }
  return phases;
}

/// The files of a run, rewritten after each phase.
class RunFiles {
 public:
  explicit RunFiles(const Arguments& arguments)
      : out_(arguments.run.out), results_(out_ + "/results.jsonl") {
    std::error_code none_yet;
    const auto before = std::filesystem::file_size(results_, none_yet);
    before_ = none_yet ? 0 : before;
    facts_ = {arguments.name, "", arguments.command, commit(), now(), arguments.seed};
    for (const Run& each : all_runs()) {
      if (each.name == arguments.name) facts_.what = each.what;
    }
  }
  /// False if a file cannot be written; the reason has been reported.
  bool write(const std::vector<Ending>& endings) const {
    try {
      const auto made = document(facts_, endings, records());
      write_text(fmt::format("{}/{}.json", out_, facts_.run),
                 made.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
      write_text(out_ + "/table.md", report(documents_in(out_)));
      return true;
    } catch (const NotRecorded& error) {
      std::printf("%s\n", error.what());
      return false;
    }
  }
  std::vector<nlohmann::json> records() const { return read_records(results_, before_); }

 private:
  const std::string out_, results_;
  std::size_t before_ = 0;
  RunFacts facts_;
};

int run_all(const Arguments& arguments) {
  std::printf("run %s, seed %llu, at most %lld s, commit %s\n", arguments.name.c_str(),
              static_cast<unsigned long long>(arguments.seed),
              static_cast<long long>(arguments.run.budget.count()), commit().c_str());
  if (testing::reduced()) std::printf("a small part of it all: CCOLL_TEST_REDUCED is set\n");
  std::fflush(stdout);
  const RunFiles files(arguments);
  bool is_written = true;
  RunOptions options = arguments.run;
  options.health = phase_of(kHealth, arguments);
  options.told = [&](const std::vector<Ending>& endings) { is_written = files.write(endings); };
  const auto endings = run_phases(phases_of(arguments), options);
  // From a remote machine often only the last 60 lines come back.
  constexpr std::size_t kMostFigures = 40;
  std::fputs((figures(files.records(), kMostFigures) + table(endings)).c_str(), stdout);
  return is_written ? status_of(endings) : kWrong;
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
  // Output must get out even if the process crashes.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return ccoll::gpu_check::run(ccoll::gpu_check::parse(count, given));
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return ccoll::gpu_check::kWrong;
  }
}
