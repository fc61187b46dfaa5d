// SPDX-License-Identifier: Apache-2.0
// Communicators' parts that write dumps for a cause outside of them.
#include "comm/record/dump_signal.hpp"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "comm/parts.hpp"
#include "dumps/read.hpp"
#include "support/children.hpp"
#include "support/directory.hpp"
#include "support/eventually.hpp"
#include "support/logged.hpp"

namespace ccoll::test {
namespace {

/// The dumps that this process writes while it lives.
class WrittenDumps {
 public:
  WrittenDumps() {
    setenv("CCOLL_DUMP", directory_.path().c_str(), 1);
    setenv("CCOLL_DUMP_SIGNAL", "USR2", 1);
  }
  ~WrittenDumps() {
    unsetenv("CCOLL_DUMP");
    unsetenv("CCOLL_DUMP_SIGNAL");
  }
  WrittenDumps(const WrittenDumps&) = delete;
  WrittenDumps& operator=(const WrittenDumps&) = delete;

  /// The communicators that have one for that reason, after which all are removed.
  std::set<std::string> take(std::string_view reason) {
    std::vector<std::string> remarks;
    std::set<std::string> found;
    for (const auto& dump : dump::read_directory(directory_.path(), remarks))
      if (dump.reason == reason) found.insert(dump.communicator);
    for (const auto& file : std::filesystem::directory_iterator(directory_.path()))
      std::filesystem::remove(file);
    return found;
  }
  /// How many are there as a whole.
  std::size_t count() const {
    const std::filesystem::directory_iterator files(directory_.path());
    return static_cast<std::size_t>(std::count_if(begin(files), end(files), [](const auto& file) {
      return file.path().string().ends_with(dump::kExtension);
    }));
  }

 private:
  const testing::Directory directory_;
};

/// A rank of a job with one communicator that writes dumps.
std::shared_ptr<Parts> joined(std::shared_ptr<Parts> parts) {
  parts->record.begin({0, 0, 0});
  parts->dumps.begin({parts, &parts->dumps});
  return parts;
}
std::shared_ptr<Parts> first_of_rank(Rank rank, std::uint64_t id) {
  return joined(std::make_shared<Parts>(rank, std::vector<std::uint32_t>{0, 1, 2}, id));
}
/// Another communicator of the same rank.
std::shared_ptr<Parts> beside(const Parts& one, std::uint64_t id) {
  return joined(std::make_shared<Parts>(one, id, CommunicatorOptions{}, one.self.group()));
}

void write_failure(Parts& parts) {
  const Owner owned(parts.progress);
  parts.dumps.write(owned, Record::kFailureDump);
}

std::string id_text(const Parts& parts) { return fmt::format("{:x}", parts.self.id()); }

}  // namespace

TEST_CASE("dump signal: at a failure the rank's other communicators write dumps, nobody else's",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  WrittenDumps dumps;
  std::uint64_t id = 0x5000;
  for (int trial = 0; trial < 20; trial++) {
    // Two ranks of one job, and one of another that has the first one's number.
    std::vector<std::vector<std::shared_ptr<Parts>>> ranks;
    for (const Rank rank : {0, 1, 0}) ranks.push_back({first_of_rank(rank, ++id)});
    ranks[2][0]->control->job_number = 2;
    for (auto more = random() % 12; more > 0; more--) {
      auto& rank = ranks[random() % ranks.size()];
      rank.push_back(beside(*rank[0], ++id));
    }
    // Some end before the failure.
    for (auto& rank : ranks)
      if (random() % 3 == 0) rank.erase(rank.begin() + static_cast<int>(random() % rank.size()));
    const auto& rank = ranks[random() % ranks.size()];
    if (rank.empty()) continue;
    auto& failing = *rank[random() % rank.size()];
    std::set<std::string> expected;
    for (const auto& other : rank)
      if (other.get() != &failing) expected.insert(id_text(*other));
    write_failure(failing);
    CHECK(dumps.count() == expected.size() + 1);
    CHECK(dumps.take(Record::kBesideDump) == expected);
  }
}

TEST_CASE("dump signal: of very many communicators those that were made last write dumps",
          "[comm][unit]") {
  WrittenDumps dumps;
  std::uint64_t id = 0x6000;
  const auto failing = first_of_rank(0, ++id);
  std::vector<std::shared_ptr<Parts>> others;
  for (int i = 0; i < 70; i++) others.push_back(beside(*failing, ++id));
  write_failure(*failing);
  const auto written = dumps.take(Record::kBesideDump);
  CHECK(written.size() == 64);
  for (std::size_t i = 0; i < others.size(); i++)
    CHECK(written.contains(id_text(*others[i])) == (i >= others.size() - 64));
}

TEST_CASE("dump signal: a communicator that has told its failure keeps that dump", "[comm][unit]") {
  WrittenDumps dumps;
  const auto one = first_of_rank(0, 0x7001), other = beside(*one, 0x7002);
  write_failure(*one);
  write_failure(*other);
  CHECK(dumps.take(Record::kFailureDump) == std::set{id_text(*one), id_text(*other)});
}

TEST_CASE("dump signal: at each signal all communicators of the process write dumps",
          "[comm][unit]") {
  WrittenDumps dumps;
  const auto one = first_of_rank(0, 0x8001), other = first_of_rank(1, 0x8002),
             another = beside(*one, 0x8003);
  auto ended = beside(*one, 0x8004);
  ended.reset();
  const std::set<std::string> all{id_text(*one), id_text(*other), id_text(*another)};
  for (int signals = 0; signals < 3; signals++) {
    REQUIRE(::raise(SIGUSR2) == 0);
    // The service thread writes them.
    CHECK(testing::eventually([&] { return dumps.count() == all.size(); }));
    CHECK(dumps.take("signal") == all);
  }
}

TEST_CASE("dump signal: one that cannot be had is told once, and why", "[comm][unit]") {
  if (!testing::kChildrenHaveMemory) return;
  const auto one = std::make_shared<Parts>(0, std::vector<std::uint32_t>{0, 1}, 0x9001);
  struct Wrong {
    const char* signal;
    const char* reason;
  };
  for (const auto& [signal, reason] : {Wrong{"USR2", "needs CCOLL_DUMP"}, Wrong{"KILL", "KILL"}}) {
    setenv("CCOLL_DUMP_SIGNAL", signal, 1);
    const testing::Heard heard;
    // A child is another process, which has not asked for the signal yet.
    const pid_t child = fork();
    if (child == 0) {
      heard.begin();
      const std::shared_ptr<Dumps> dumps(one, &one->dumps);
      const bool has_none = !DumpSignal::join(dumps) && !DumpSignal::join(dumps);
      _exit(has_none ? 0 : 1);
    }
    unsetenv("CCOLL_DUMP_SIGNAL");
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(heard.count("CCOLL_DUMP_SIGNAL: ") == 1);
    CHECK(heard.count(reason) == 1);
  }
}

}  // namespace ccoll::test
