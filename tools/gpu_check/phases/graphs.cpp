// SPDX-License-Identifier: Apache-2.0
// Graphs, each kind in a process of its own whose very first call is captured: of communicators
// with a thread per rank, one thread for all, and a process each; and of teams alone.
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "ccoll/call_group.hpp"
#include "gpu_check/children.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/phases/known_calls.hpp"
#include "gpu_check/phases/replays.hpp"
#include "gpu_check/phases/team_part.hpp"
#include "gpu_check/watchdog.hpp"
#include "support/effort.hpp"

namespace ccoll::gpu_check {
namespace {

const int kGraphRounds = testing::by_effort(40, 1000, 1000);

/// Some ranks of a communicator, with the resources of their calls.
class CommunicatorPart final : public Part {
 public:
  explicit CommunicatorPart(int size, std::size_t ranks_here) : size_(size) {
    for (std::size_t i = 0; i < ranks_here; i++) {
      streams_.push_back(value_or_throw(device::make_stream()));
      calls_.emplace_back(1000, size, kGraphRounds);
    }
  }
  /// Waits for the ranks of other threads; all have made their streams and memory by then.
  void join(const std::shared_ptr<Store>& store, int rank, const std::string& name) {
    communicators_.push_back(
        Communicator::create(make_prefix_store(store, name), rank, size_, options(name)));
  }
  void join_all(const std::string& name) {
    communicators_ = Communicator::create_all(size_, options(name));
  }
  /// Waits until all are done, since freeing memory waits for all streams of the process.
  void end() {
    if (communicators_.size() == 1) communicators_[0].barrier();
  }

  std::vector<cudaStream_t> streams() const override {
    std::vector<cudaStream_t> all;
    for (const auto& each : streams_) all.push_back(each.get());
    return all;
  }
  void put(int round) override {
    for (std::size_t i = 0; i < calls_.size(); i++)
      calls_[i].put(round, communicators_[i].rank(), size_, streams_[i].get());
  }
  void call(std::span<const cudaStream_t> streams) override {
    CallGroup group;
    for (std::size_t i = 0; i < calls_.size(); i++) calls_[i].call(communicators_[i], streams[i]);
    group.end();
  }
  std::string wrong() override {
    std::string all;
    for (std::size_t i = 0; i < calls_.size(); i++) {
      if (const auto wrong = calls_[i].wrong(streams_[i].get()); !wrong.empty())
        all += wrong + "; ";
      if (const auto broken = communicators_[i].error(); !broken.empty())
        throw std::runtime_error("broken: " + broken);
    }
    return all;
  }

 private:
  static CommunicatorOptions options(const std::string& name) {
    CommunicatorOptions options;
    options.name = name;
    options.device.ordinal = 0;
    options.timeout = std::chrono::seconds(testing::by_effort(10, 30, 30));
    return options;
  }

  const int size_;
  std::vector<device::OwnStream> streams_;
  std::vector<KnownCalls> calls_;
  std::vector<Communicator> communicators_;
};

/// The findings of one driver of ranks; threads must not report it at once.
struct Found {
  int rounds = 0;
  std::uint64_t looks = 0;
  std::vector<std::string> wrong;
};

/// `goes_on`: whether there is time, the same answer for all drivers of ranks.
Found replay(Part& first, Part& second, std::uint64_t seed, Watchdog& watchdog,
             const std::function<bool()>& goes_on) {
  Found found;
  const auto judge = [&](const std::string& wrong, int round) {
    found.looks++;
    if (!wrong.empty()) found.wrong.push_back(fmt::format("after {} rounds: {}", round, wrong));
  };
  found.rounds = Replays(first, second, seed).run(kGraphRounds, judge, [&](int round) {
    watchdog.at(fmt::format("graphs and plain calls from round {} on", round));
    return goes_on();
  });
  return found;
}

/// One rank of two communicators; the second numbers its ranks in reverse.
Found replay_rank(const std::shared_ptr<Store>& store, int rank, int size, std::uint64_t seed,
                  Watchdog& watchdog) {
  CommunicatorPart first(size, 1), second(size, 1);
  first.join(store, rank, "first");
  second.join(store, size - 1 - rank, "second");
  // Uses only the host, because the others' graphs may be running.
  CommunicatorOptions of_host;
  of_host.name = "host";
  auto host = Communicator::create(make_prefix_store(store, "host"), rank, size, of_host);
  Found found = replay(first, second, seed, watchdog, [&] {
    std::uint8_t late = is_late() ? 1 : 0;
    host.broadcast(Block(&late, 1, DataType::uint8), 0);
    return late == 0;
  });
  first.end();
  return found;
}

Found replay_threads(int size, std::uint64_t seed, Watchdog& watchdog) {
  const auto store = make_inproc_store();
  std::vector<Found> all_found(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; rank++) {
      threads.emplace_back([&, rank] {
        auto& found = all_found[static_cast<std::size_t>(rank)];
        try {
          found = replay_rank(store, rank, size, seed, watchdog);
        } catch (const std::exception& error) {
          found.wrong.push_back(fmt::format("rank {} of {}: {}", rank, size, error.what()));
        }
      });
    }
  }
  Found all;
  for (auto& each : all_found) {
    all.rounds = each.rounds;
    all.looks += each.looks;
    all.wrong.insert(all.wrong.end(), each.wrong.begin(), each.wrong.end());
  }
  return all;
}

Found replay_one_thread(int size, std::uint64_t seed, Watchdog& watchdog) {
  const auto ranks = static_cast<std::size_t>(size);
  CommunicatorPart first(size, ranks), second(size, ranks);
  first.join_all("first");
  second.join_all("second");
  return replay(first, second, seed, watchdog, [] { return !is_late(); });
}

Found replay_teams(std::uint64_t seed, Watchdog& watchdog) {
  constexpr std::uint32_t kRanks = 4;
  TeamPart first(kRanks, seed), second(kRanks, seed + 1);
  return replay(first, second, seed, watchdog, [] { return !is_late(); });
}

std::string graphs_store(const PhaseContext& context) { return context.out + "/graphs.store"; }

/// Runs one kind: the number of ranks, how they are driven, and this process's part.
Found replay_kind(const PhaseContext& context, const std::string& kind, int size, int rank,
                  Watchdog& watchdog) {
  if (kind == "threads") return replay_threads(size, context.seed, watchdog);
  if (kind == "one-thread") return replay_one_thread(size, context.seed, watchdog);
  if (kind == "teams") return replay_teams(context.seed, watchdog);
  return replay_rank(make_file_store(graphs_store(context)), rank, size, context.seed, watchdog);
}

}  // namespace

int run_graph(const std::string& handle) {
  const PeerArguments arguments(handle);
  const Records records(arguments.out + "/results.jsonl");
  const PhaseContext context{"graphs", records, arguments.seed, arguments.out};
  Findings findings(context);
  const auto name = fmt::format("{} of {}", arguments.kind, arguments.size);
  Watchdog watchdog(context, std::chrono::seconds(testing::by_effort(60, 20, 60)));
  watchdog.at(name + ": before the first round");
  const auto begin = std::chrono::steady_clock::now();
  Found found;
  try {
    found = replay_kind(context, arguments.kind, arguments.size, arguments.rank, watchdog);
  } catch (const std::exception& error) {
    found.wrong.emplace_back(error.what());
  }
  for (std::uint64_t i = 0; i < found.looks; i++) findings.tried();
  for (const auto& each : found.wrong) findings.wrong(name + ": " + each);
  if (found.wrong.empty() && found.rounds < kGraphRounds)
    findings.leave_out(fmt::format("{} of {} rounds", kGraphRounds - found.rounds, kGraphRounds));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  records.add({{"phase", context.name},
               {"what", "replays"},
               {"ranks_are", arguments.kind},
               {"ranks", arguments.size},
               {"rank", arguments.rank},
               {"rounds", found.rounds},
               {"looks", found.looks},
               {"seconds", took.count()}});
  return findings.close("looks at " + name);
}

int run_graphs(const PhaseContext& context) {
  Findings findings(context);
  const auto start = [&](const std::string& kind, int size, int rank = 0) {
    return start_peer("graph", PeerArguments::text(kind, size, rank, context));
  };
  // A hanging kind is ended before the phase is, so that the others are tried, too.
  const std::chrono::seconds patience(testing::by_effort(100, 25, 60));
  constexpr std::pair<const char*, int> kKinds[] = {{"teams", 4},     {"threads", 2},
                                                    {"threads", 4},   {"one-thread", 4},
                                                    {"processes", 2}, {"processes", 4}};
  int left = static_cast<int>(std::size(kKinds));
  for (const auto& [kind, size] : kKinds) {
    Until::here().begin_part(left--);
    const Check check(findings, fmt::format("graphs of {}, {} ranks", kind, size));
    std::filesystem::remove(graphs_store(context));
    const int processes = kind == std::string("processes") ? size : 1;
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < processes; rank++) ranks.push_back(start(kind, size, rank));
    await_peers(ranks, findings, patience);
  }
  std::filesystem::remove(graphs_store(context));
  return findings.close("processes");
}

}  // namespace ccoll::gpu_check
