// SPDX-License-Identifier: Apache-2.0
// Graphs, each kind in a process of its own whose very first call is captured: of communicators
// with a thread for each rank, one thread for all, and a process for each; and of teams alone.
#include <filesystem>
#include <optional>
#include <thread>

#include "ccoll/call_group.hpp"
#include "children.hpp"
#include "known_calls.hpp"
#include "phases.hpp"
#include "replays.hpp"
#include "support/effort.hpp"
#include "team_part.hpp"

namespace ccoll::gpu_check {
namespace {

const int kRounds = testing::by_effort(40, 1000, 1000);

/// Some ranks of a communicator, with what their calls need.
class CommunicatorPart final : public Part {
 public:
  explicit CommunicatorPart(int size, std::size_t ranks_here) : size_(size) {
    for (std::size_t i = 0; i < ranks_here; i++) {
      streams_.push_back(value_or_throw(device::make_stream()));
      calls_.emplace_back(1000, size, kRounds);
    }
  }
  /// Waits for the ranks that others drive; all of them have made their streams and memory by then.
  void join(const std::shared_ptr<Store>& store, int rank, const std::string& name) {
    communicators_.push_back(
        Communicator::create(make_prefix_store(store, name), rank, size_, options(name)));
  }
  void join_all(const std::string& name) {
    communicators_ = Communicator::create_all(size_, options(name));
  }
  /// Until all are through: to free memory waits for all streams of the process.
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
    options.device = 0;
    options.timeout = std::chrono::seconds(testing::by_effort(10, 30, 30));
    return options;
  }

  const int size_;
  std::vector<device::OwnStream> streams_;
  std::vector<KnownCalls> calls_;
  std::vector<Communicator> communicators_;
};

/// What a driver of ranks found; not to be told by several threads at once.
struct Found {
  std::uint64_t looks = 0;
  std::vector<std::string> wrong;
};

Found replay(Part& first, Part& second, std::uint64_t seed) {
  Found found;
  Replays(first, second, seed).run(kRounds, [&](const std::string& wrong, int round) {
    found.looks++;
    if (!wrong.empty()) found.wrong.push_back(fmt::format("after {} rounds: {}", round, wrong));
  });
  return found;
}

/// One rank of two communicators, in the second of which ranks are numbered from the end.
Found replay_rank(const std::shared_ptr<Store>& store, int rank, int size, std::uint64_t seed) {
  CommunicatorPart first(size, 1), second(size, 1);
  first.join(store, rank, "first");
  second.join(store, size - 1 - rank, "second");
  Found found = replay(first, second, seed);
  first.end();
  return found;
}

Found replay_threads(int size, std::uint64_t seed) {
  const auto store = make_inproc_store();
  std::vector<Found> all_found(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; rank++) {
      threads.emplace_back([&, rank] {
        auto& found = all_found[static_cast<std::size_t>(rank)];
        try {
          found = replay_rank(store, rank, size, seed);
        } catch (const std::exception& error) {
          found.wrong.push_back(fmt::format("rank {} of {}: {}", rank, size, error.what()));
        }
      });
    }
  }
  Found all;
  for (auto& each : all_found) {
    all.looks += each.looks;
    all.wrong.insert(all.wrong.end(), each.wrong.begin(), each.wrong.end());
  }
  return all;
}

Found replay_one_thread(int size, std::uint64_t seed) {
  const auto ranks = static_cast<std::size_t>(size);
  CommunicatorPart first(size, ranks), second(size, ranks);
  first.join_all("first");
  second.join_all("second");
  return replay(first, second, seed);
}

Found replay_teams(std::uint64_t seed) {
  constexpr std::uint32_t kRanks = 4;
  TeamPart first(kRanks, seed), second(kRanks, seed + 1);
  return replay(first, second, seed);
}

std::string store_of(const PhaseContext& context) { return context.out + "/graphs.store"; }

/// By its kind: how many ranks, how they are driven, and which of them this is.
Found replay_kind(const PhaseContext& context, const std::string& kind, int size, int rank) {
  if (kind == "threads") return replay_threads(size, context.seed);
  if (kind == "one-thread") return replay_one_thread(size, context.seed);
  if (kind == "teams") return replay_teams(context.seed);
  return replay_rank(make_file_store(store_of(context)), rank, size, context.seed);
}

}  // namespace

int run_graph(const std::string& handle) {
  const PeerArguments arguments(handle);
  const Records records(arguments.out + "/results.jsonl");
  const PhaseContext context{"graphs", records, arguments.seed, arguments.out};
  Findings findings(context);
  const auto name = fmt::format("{} of {}", arguments.kind, arguments.size);
  const auto begin = std::chrono::steady_clock::now();
  Found found;
  try {
    found = replay_kind(context, arguments.kind, arguments.size, arguments.rank);
  } catch (const std::exception& error) {
    found.wrong.emplace_back(error.what());
  }
  for (std::uint64_t i = 0; i < found.looks; i++) findings.tried();
  for (const auto& each : found.wrong) findings.wrong(name + ": " + each);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  records.add({{"phase", context.name},
               {"what", "replays"},
               {"ranks_are", arguments.kind},
               {"ranks", arguments.size},
               {"rank", arguments.rank},
               {"rounds", kRounds},
               {"looks", found.looks},
               {"seconds", took.count()}});
  return findings.close("looks at " + name);
}

int run_graphs(const PhaseContext& context) {
  Findings findings(context);
  const auto start = [&](const std::string& kind, int size, int rank = 0) {
    return start_peer("graph", PeerArguments::text(kind, size, rank, context));
  };
  await_peers({start("teams", 4)}, findings);
  for (const int size : {2, 4}) await_peers({start("threads", size)}, findings);
  await_peers({start("one-thread", 4)}, findings);
  for (const int size : {2, 4}) {
    std::filesystem::remove(store_of(context));
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < size; rank++) ranks.push_back(start("processes", size, rank));
    await_peers(ranks, findings);
  }
  std::filesystem::remove(store_of(context));
  return findings.close("processes");
}

}  // namespace ccoll::gpu_check
