// SPDX-License-Identifier: Apache-2.0
// Programs made for NCCL, over the libnccl.so.2 beside this program: the conformance program,
// PyTorch and CuPy. Then the Python package, over arrays and tensors on the GPU. Each is a process
// with its own limit.
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "gpu_check/children.hpp"
#include "gpu_check/phases.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

fs::path beside(const std::string& name) { return fs::path(own_path()).parent_path() / name; }

const std::string kLibrary = "nccl/libnccl.so.2";
const std::string kConformance = "nccl-conformance";
const std::string kPackage = "package";

/// Whether all files lie beside this program; reports missing ones.
bool has(std::span<const std::string> names) {
  for (const std::string& name : names) {
    if (fs::exists(beside(name))) continue;
    std::printf("there is no %s beside this program\n", name.c_str());
    return false;
  }
  return true;
}

/// The rest of the phase's time, but at most `most`.
seconds left(seconds most) {
  const auto until = Until::here().phase;
  if (until == Until::Clock::time_point::max()) return most;
  const auto left = std::chrono::floor<seconds>(until - Until::Clock::now());
  return std::clamp(left, seconds(1), most);
}

/// `library`: the folder of the libnccl.so.2 to load.
std::vector<std::string> conformance(const fs::path& library, const std::string& layout,
                                     const std::string& mode, std::uint64_t seed) {
  return {"/usr/bin/env",
          "LD_LIBRARY_PATH=" + library.string(),
          beside(kConformance),
          "--devices",
          "--layout",
          layout,
          "--mode",
          mode,
          "--seed",
          std::to_string(seed)};
}

/// The folder of NVIDIA's own library, from its package or PyTorch's.
std::optional<fs::path> folder_of_nvidias() {
  std::vector<fs::path> folders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                   "/usr/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda/lib"};
  for (const fs::path base : {"/usr/lib", "/usr/local/lib", "/opt/conda/lib"}) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(base, none)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* const packages : {"site-packages", "dist-packages"})
        folders.push_back(entry.path() / packages / "nvidia/nccl/lib");
    }
  }
  for (const fs::path& folder : folders)
    if (fs::exists(folder / "libnccl.so.2")) return folder;
  return std::nullopt;
}

/// The same program over NVIDIA's library, which allows one rank on a GPU. The result is reported
/// but not judged, since the library may be older than the program.
void try_nvidias(const PhaseContext& context) {
  const auto folder = folder_of_nvidias();
  if (!folder) {
    std::printf("NVIDIA's own libnccl.so.2 is not here to be compared with\n");
    return;
  }
  const auto status = status_within(
      start_program(conformance(*folder, "1x1", "threads", context.seed)), left(seconds(30)));
  const std::string said = !status              ? "did not end"
                           : *status == kPassed ? "is right"
                                                : fmt::format("ended with status {}", *status);
  std::printf("NVIDIA's own of %s with one rank: %s\n", folder->c_str(), said.c_str());
  context.records.add({{"phase", context.name},
                       {"what", "NVIDIA's own library"},
                       {"folder", folder->string()},
                       {"said", said}});
}

/// How a Python program over `library` has ended, which ends itself after its limit; kIncomplete if
/// it lacks something, which has been printed.
std::optional<int> status_of_script(const std::string& library, const std::string& script,
                                    const std::vector<std::string>& more = {}) {
  const std::string needed[] = {library, script};
  if (!has(needed)) return kIncomplete;
  const std::string python = find_program("python3");
  if (python.empty()) {
    std::printf("there is no python3 in PATH\n");
    return kIncomplete;
  }
  const auto limit = left(seconds(600));
  std::vector<std::string> command = {
      python,          "-B",      beside(script),
      beside(library), "--limit", std::to_string(std::max<std::int64_t>(1, limit.count() - 5))};
  command.insert(command.end(), more.begin(), more.end());
  return status_within(start_program(command), limit + seconds(5));
}

int run_script(const PhaseContext& context, const std::string& script, const std::string& what) {
  const auto status = status_of_script(kLibrary, script);
  if (status == kIncomplete) return kIncomplete;
  Findings findings(context);
  {
    const Check check(findings, what);
    findings.tried();
    if (!status) findings.wrong(what + " has not ended in time");
    if (status && *status != kPassed)
      findings.wrong(fmt::format("{} ended with status {}", what, *status));
  }
  return findings.close("programs");
}

/// Runs a program over the Python package, which records and prints its own findings.
int run_over_package(const PhaseContext& context, const std::string& script) {
  if (!fs::exists(beside(kPackage))) {
    std::printf("there is no package beside this program: tools/wheel --cuda makes one\n");
    return kIncomplete;
  }
  const auto status =
      status_of_script(kPackage, script,
                       {"--results", context.out + "/results.jsonl", "--phase", context.name,
                        "--patience", std::to_string(context.patience)});
  if (status == kPassed || status == kWrong || status == kIncomplete) return *status;
  Findings findings(context);
  findings.tried();
  findings.wrong(script + (status ? fmt::format(" ended with status {}", *status)
                                  : std::string(" has not ended in time")));
  return findings.close("programs");
}

}  // namespace

int run_nccl(const PhaseContext& context) {
  const std::string needed[] = {kLibrary, kConformance};
  if (!has(needed)) return kIncomplete;
  struct Layout {
    const char* ranks;  ///< processes × ranks per process
    const char* mode;
  };
  constexpr Layout kLayouts[] = {{"1x1", "threads"}, {"2x1", "threads"}, {"1x2", "grouped"},
                                 {"4x1", "threads"}, {"1x4", "threads"}, {"8x1", "threads"},
                                 {"1x8", "grouped"}};
  const auto layouts =
      std::span(kLayouts).first(testing::reduced() ? std::size_t{2} : std::size(kLayouts));
  Findings findings(context);
  for (const Layout& layout : layouts) {
    const auto name = fmt::format("conformance of {} {}", layout.ranks, layout.mode);
    if (is_late()) {
      findings.leave_out(name);
      continue;
    }
    const Check check(findings, name);
    await_peers({start_program(conformance(beside(kLibrary).parent_path(), layout.ranks,
                                           layout.mode, context.seed))},
                findings, left(seconds(40)));
  }
  // In tests the program is linked with our library.
  if (!is_late() && !testing::reduced()) try_nvidias(context);
  return findings.close("layouts");
}

int run_torch(const PhaseContext& context) {
  return run_script(context, "torch_jobs.py", "PyTorch by LD_PRELOAD");
}

int run_cupy(const PhaseContext& context) {
  return run_script(context, "cupy_jobs.py", "CuPy's NcclCommunicator");
}

int run_arrays(const PhaseContext& context) { return run_over_package(context, "array_jobs.py"); }

int run_backend(const PhaseContext& context) {
  return run_over_package(context, "backend_jobs.py");
}

}  // namespace ccoll::gpu_check
