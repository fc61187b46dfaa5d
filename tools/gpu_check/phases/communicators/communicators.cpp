// SPDX-License-Identifier: Apache-2.0
// Communicators whose ranks are all on one GPU, as threads of this process and as processes, in
// each way that their calls can take. Calls in streams must leave the same results as communicators
// without a GPU.
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "ccoll/communicator.hpp"
#include "core/text.hpp"
#include "gpu/cuda/cuda.hpp"
#include "gpu_check/children.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/phases/communicators/tried_rank.hpp"
#include "schedule/problem.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

constexpr int kProcesses = 8;

/// Runs everything; errors are in the report.
RankReport run_rank(const PhaseContext& context, const std::shared_ptr<Store>& store, int rank,
                    int size, const std::string& way) {
  RankReport report;
  try {
    TriedRank(store, rank, size, way, context, report).run();
  } catch (const std::exception& error) {
    report.failed = fmt::format("rank {} of {}, by {}: {}", rank, size, way, error.what());
  }
  return report;
}

void tell(const PhaseContext& context, const RankReport& report, int rank, const char* ranks_are,
          Findings& findings) {
  for (std::uint64_t i = 0; i < report.tried; i++) findings.tried();
  for (const std::string& each : report.wrong) findings.wrong(each);
  if (!report.failed.empty()) findings.wrong(report.failed);
  if (rank != 0) return;
  for (const std::string& each : report.left_out) findings.leave_out(each);
  for (nlohmann::json figure : report.figures) {
    figure.update({{"phase", context.name}, {"ranks_are", ranks_are}});
    context.records.add(figure);
    std::printf(
        "%s\n",
        fmt::format("2 {}, by {}, {} of {} B: {:.1f} us, the copies alone {:.1f}", ranks_are,
                    figure["way"].get<std::string>(), figure["call"].get<std::string>(),
                    figure["bytes"].get<std::size_t>(), figure["seconds"].get<double>() * 1e6,
                    figure["copies_s"].get<double>() * 1e6)
            .c_str());
  }
  std::fflush(stdout);
}

void run_threads(const PhaseContext& context, int size, const std::string& way,
                 Findings& findings) {
  const auto store = make_inproc_store();
  std::vector<RankReport> reports(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; rank++) {
      threads.emplace_back([&, rank] {
        reports[static_cast<std::size_t>(rank)] = run_rank(context, store, rank, size, way);
      });
    }
  }
  std::uint64_t tried = 0;
  for (int rank = 0; rank < size; rank++) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    tell(context, report, rank, "threads", findings);
    tried += report.tried;
  }
  context.records.add({{"phase", context.name},
                       {"what", "trials"},
                       {"ranks_are", "threads"},
                       {"way", way},
                       {"ranks", size},
                       {"seed", context.seed},
                       {"tried", tried}});
}

std::filesystem::path store_of(const std::string& out) { return out + "/communicators.store"; }

/// Runs the groups that this process belongs to, one after another. Their ranks begin each
/// together.
void run_groups(const PhaseContext& context, int rank, Findings& findings) {
  const auto store = make_file_store(store_of(context.out).string());
  int left = 6;
  for (const int size : {2, 4, kProcesses}) {
    for (const std::string way : {"steps", "host"}) {
      Until::here().begin_part(left--);
      if (rank >= size) continue;
      const Check check(findings, fmt::format("rank {} of {} processes by {}", rank, size, way));
      const auto report = run_rank(
          context, make_prefix_store(store, fmt::format("{} {}", way, size)), rank, size, way);
      tell(context, report, rank, "processes", findings);
      if (!report.failed.empty()) return;
    }
  }
}

}  // namespace

int run_communicator(const std::string& handle) {
  const PeerArguments arguments(handle);
  const Records records(arguments.out + "/results.jsonl");
  const bool is_process = arguments.kind == "process";
  const PhaseContext context{is_process ? "ways" : "communicators", records, arguments.seed,
                             arguments.out};
  Findings findings(context);
  if (!is_process) {
    run_threads(context, arguments.size, arguments.kind, findings);
    return findings.close(fmt::format("calls of {} threads by {}", arguments.size, arguments.kind));
  }
  run_groups(context, arguments.rank, findings);
  return findings.close(fmt::format("calls of rank {}", arguments.rank));
}

int run_communicators(const PhaseContext& context) {
  Findings findings(context);
  // A hanging group is ended before the phase is, so that the others are tried, too.
  const std::chrono::seconds patience(testing::by_effort(100, 25, 100));
  int left = 10;
  for (const int size : {2, 1, 4, 8, 3}) {
    for (const std::string way : {"team", "host"}) {
      Until::here().begin_part(left--);
      const Check check(findings, fmt::format("{} threads by {}", size, way));
      await_peers({start_peer("communicator", PeerArguments::text(way, size, 0, context))},
                  findings, patience);
    }
  }
  return findings.close("communicators");
}

int run_ways(const PhaseContext& context) {
  Findings findings(context);
  std::filesystem::remove(store_of(context.out));
  std::vector<pid_t> children;
  for (int rank = 0; rank < kProcesses; rank++) {
    children.push_back(
        start_peer("communicator", PeerArguments::text("process", kProcesses, rank, context)));
  }
  await_peers(children, findings, std::chrono::seconds(testing::by_effort(200, 55, 200)));
  std::filesystem::remove(store_of(context.out));
  return findings.close("processes");
}

}  // namespace ccoll::gpu_check
