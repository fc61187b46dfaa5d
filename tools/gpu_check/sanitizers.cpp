// SPDX-License-Identifier: Apache-2.0
// NVIDIA's compute-sanitizer on small teams, after it has found errors in wrong kernels.
#include <sys/wait.h>

#include <chrono>
#include <random>

#include "gpu/team/team.hpp"
#include "gpu/team/team_memory.hpp"
#include "gpu_check/children.hpp"
#include "gpu_check/phases/graph.hpp"
#include "gpu_check/phases/wayward_kernels.hpp"
#include "gpu_check/watchdog.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

/// The status by which a sanitizer reports findings.
constexpr int kFound = 99;

/// The status of a process of this program under the sanitizer.
int status_under(const std::string& sanitizer, const std::string& tool, const std::string& handle) {
  const pid_t child =
      start_program({sanitizer, "--tool", tool,
                     // ccoll checks those itself, and some of its queries are expected to fail
                     "--report-api-errors", "no", "--error-exitcode", std::to_string(kFound),
                     own_path(), "--peer-of", "sanitized", handle});
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void run_canary(const std::string& tool) {
  constexpr std::uint32_t kWords = 96;
  const auto memory = value_or_throw(device::allocate_on_device(4 * kWords));
  std::byte* words = memory.get();
  std::uint32_t count = kWords;
  void* arguments[] = {&words, &count};
  check(cudaMemset(words, 0, 4 * kWords), "zeroing words");
  const void* const kernel = tool == "memcheck" ? kernel_out_of_bounds() : kernel_beside_barrier();
  check(cudaLaunchKernel(kernel, dim3(1), dim3(kWords), arguments, 0, nullptr),
        "launching what is to be found");
  check(cudaDeviceSynchronize(), "what is to be found");
}

/// A rank's input and output on the device, without any slack behind them.
class ExactBuffers {
 public:
  ExactBuffers(test::TeamMemory& memory, Rank rank, std::mt19937_64& random)
      : memory_(memory), rank_(rank) {
    for (Place& place : places_) {
      const auto here = memory.buffer(rank, place.which);
      place.skew = random() % 16;
      place.memory = value_or_throw(device::allocate_on_device(place.skew + here.size()));
      check(cudaMemcpy(place.there(), here.data(), here.size(), cudaMemcpyHostToDevice),
            "copying a rank's memory to the GPU");
    }
  }
  std::byte* input() const { return places_[0].there(); }
  std::byte* output() const { return places_[1].there(); }
  void get() {
    for (const Place& place : places_) {
      const auto here = memory_.buffer(rank_, place.which);
      check(cudaMemcpy(here.data(), place.there(), here.size(), cudaMemcpyDeviceToHost),
            "copying a rank's memory from the GPU");
    }
  }

 private:
  struct Place {
    Buffer which;
    std::size_t skew = 0;
    device::DeviceMemory memory = {};
    std::byte* there() const { return memory.get() + skew; }
  };

  test::TeamMemory& memory_;
  const Rank rank_;
  Place places_[2] = {{Buffer::input}, {Buffer::output}};
};

class SanitizedTeam {
 public:
  SanitizedTeam(Rank ranks, std::mt19937_64& random)
      : random_(random), team_(value_or_throw(device::Team::make({ranks}))) {
    for (Rank rank = 0; rank < ranks; rank++)
      streams_.push_back(value_or_throw(device::make_stream()));
  }

  /// Describes differences from the host's interpreter.
  std::string wrong(const test::TeamCase& made) {
    const auto lowered = made.lowered();
    const auto* const program = value_or_throw(team_->load(lowered));
    test::TeamMemory memory(made, random_), expected = memory;
    host_.run(lowered, expected.buffers(), 1);
    std::vector<ExactBuffers> there;
    for (Rank rank = 0; rank < streams_.size(); rank++) there.emplace_back(memory, rank, random_);
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (Rank rank = 0; rank < streams_.size(); rank++) {
      device::TeamCall call;
      call.rank = rank;
      call.program = program;
      call.input = there[rank].input();
      call.output = there[rank].output();
      call.stream = streams_[rank].get();
      value_or_throw(team_->arrive(call));
    }
    for (Rank rank = 0; rank < streams_.size(); rank++) value_or_throw(team_->leave(rank, soon));
    value_or_throw(team_->wait(soon));
    for (ExactBuffers& each : there) each.get();
    return memory.differences(expected);
  }

 private:
  std::mt19937_64& random_;
  std::vector<device::OwnStream> streams_;
  testing::TeamOnHost host_{test::kMostBlocks, test::kMostFlags};
  std::unique_ptr<device::Team> team_;  // ends before the streams do
};

void run_small_teams(const PhaseContext& context, Findings& findings) {
  std::mt19937_64 random(context.seed);
  for (const Rank ranks : {2U, 4U}) {
    SanitizedTeam team(ranks, random);
    const auto cases = test::pairwise_cover(ranks, random);
    for (std::size_t i = 0; i < cases.size(); i += testing::by_effort<std::size_t>(40, 12, 4)) {
      test::TeamCase made = cases[i];
      made.in_place.assign(ranks, false);
      findings.tried();
      if (const auto wrong = team.wrong(made); !wrong.empty())
        findings.wrong(fmt::format("{}: bits differ from the host's: {}", made.text(), wrong));
    }
  }
}

}  // namespace

int run_sanitized(const std::string& handle) {
  const PeerArguments arguments(handle);
  const Records records(arguments.out + "/results.jsonl");
  const PhaseContext context{"sanitizers", records, arguments.seed, arguments.out};
  if (arguments.kind != "teams") {
    run_canary(arguments.kind.substr(arguments.kind.find('-') + 1));
    return kPassed;
  }
  Findings findings(context);
  run_small_teams(context, findings);
  return findings.close("calls of small teams");
}

int run_sanitizers(const PhaseContext& context) {
  Findings findings(context);
  Watchdog watchdog(context, std::chrono::seconds(60));
  const std::string sanitizer = find_program("compute-sanitizer", "/usr/local/cuda/bin");
  if (sanitizer.empty()) {
    std::printf("there is no compute-sanitizer in PATH or /usr/local/cuda/bin\n");
    return kIncomplete;
  }
  for (const std::string tool : {"memcheck", "synccheck"}) {
    const auto run = [&](const std::string& kind) {
      watchdog.at(fmt::format("{} of {}", tool, kind));
      const int status = status_under(sanitizer, tool, PeerArguments::text(kind, 0, 0, context));
      context.records.add(
          {{"phase", context.name}, {"what", kind}, {"tool", tool}, {"status", status}});
      return status;
    };
    const int canary = run("canary-" + tool);
    if (canary == kPassed) {
      findings.tried();
      findings.wrong(tool + " does not find what is wrong in a kernel that is made so");
      continue;
    }
    if (canary != kFound) {
      std::printf("%s cannot be used here: it ended with status %d\n", tool.c_str(), canary);
      return kIncomplete;
    }
    findings.tried();
    const int teams = run("teams");
    if (teams == kFound) findings.wrong(tool + " finds something in small teams, as it says above");
    if (teams != kFound && teams != kPassed)
      findings.wrong(fmt::format("small teams under {} ended with status {}", tool, teams));
  }
  return findings.close("sanitizers");
}

}  // namespace ccoll::gpu_check
