// SPDX-License-Identifier: Apache-2.0
// Calls that wait: long waits are reported, and communicators end while calls are under way.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "job.hpp"

namespace faults {

namespace {

/// Longer than any wait of a rank, so that the rank itself reports what is missing.
constexpr std::chrono::seconds kLimit{40};

/// A file for rank 0's log, readable by all ranks.
class Log {
 public:
  Log() {
    const int made = ::mkstemp(path_);
    require(made >= 0, "there is a file for the log");
    ::close(made);
  }
  ~Log() { ::unlink(path_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Must be called before the rank's first call. Rank 0 logs to the file and reports waits of 0.3
  /// s.
  void begin(const Rank& rank) const {
    ::setenv("CCOLL_NCCL_WARN_AFTER", "0.3", 1);
    if (rank.number == 0) ::setenv("CCOLL_LOG_FILE", path_, 1);
  }

  /// How many lines have all of these words.
  int count(std::initializer_list<const char*> words) const {
    std::ifstream file(path_);
    int found = 0;
    for (std::string line; std::getline(file, line);) {
      bool has_all = true;
      for (const char* word : words) has_all = has_all && line.find(word) != line.npos;
      found += has_all ? 1 : 0;
    }
    return found;
  }

  /// Waits until there is such a line.
  void wait_for(std::initializer_list<const char*> words) const {
    try {
      Rank::wait_until("a line of the log", [&] { return count(words) > 0; });
    } catch (const Unexpected& error) {
      std::ostringstream text;
      text << error.what() << "; the log: " << std::ifstream(path_).rdbuf();
      throw Unexpected(text.str());
    }
  }

 private:
  char path_[32] = "/tmp/nccl_faults_XXXXXX";
};

/// Rank 0 waits for the last of three ranks, which calls only once the log has named it.
void long_wait(std::initializer_list<const char*> words, ncclResult_t (*call)(Rank& rank)) {
  const Log log;
  Job job(3, [&](Rank& rank) {
    log.begin(rank);
    rank.make();
    if (rank.number == 2) {
      log.wait_for(words);
      ::usleep(600000);  // twice the time until a wait is reported
    }
    must(call(rank), "a call that one rank makes late");
    require(rank.async_error() == ncclSuccess, "a long wait breaks nothing");
    must(rank.sum(), "the next ncclAllReduce");
    require(log.count(words) == 1, "a long wait is told of once");
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  });
  job.ends_well(kLimit);
}
void long_collective() {
  long_wait({"broadcast", "has waited for", "rank 2"}, [](Rank& rank) {
    float value = 0;
    return ncclBroadcast(&value, &value, 1, ncclFloat32, 2, rank.comm, nullptr);
  });
}
void long_receive() {
  long_wait({"recv", "has waited for", "rank 2"}, [](Rank& rank) {
    if (rank.number == 1) return ncclSuccess;
    return rank.number == 0 ? rank.receive(2) : rank.send(0);
  });
}

/// Ranks 0 and 1 start up; rank 2 comes once the log has named it.
void long_start() {
  const Log log;
  Job job(3, [&](Rank& rank) {
    log.begin(rank);
    const auto id = rank.id();
    if (rank.number == 2) log.wait_for({"rank 2"});
    must(ncclCommInitRank(&rank.comm, 3, id, rank.number), "ncclCommInitRank");
    must(rank.sum(), "the first ncclAllReduce");
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  });
  job.ends_well(kLimit);
}

/// One thread's call cannot end, and another thread destroys the communicator. The peer calls
/// afterwards and gets one of those codes.
void destroyed_in(ncclResult_t (*call)(Rank& rank), std::initializer_list<ncclResult_t> peers) {
  Job job(2, [&](Rank& rank) {
    rank.make();
    if (rank.number == 1) {
      rank.wait_for(0, 1);
      require_code(rank.sum(), peers, "a call whose peer has left");
      must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
      return;
    }
    ncclResult_t ended = ncclSuccess;
    std::thread thread([&] { ended = call(rank); });
    ::usleep(200000);
    const auto code = ncclCommDestroy(rank.comm);
    thread.join();
    must(code, "ncclCommDestroy");
    require(ended != ncclSuccess && ended != ncclInProgress, "the call ends, and not well");
    rank.reach(0);
  });
  job.ends_well(kLimit);
}
void destroyed_in_a_collective() {
  // The peer's contribution may have arrived before it left.
  destroyed_in([](Rank& rank) { return rank.sum(); }, {ncclSuccess, ncclRemoteError});
}
void destroyed_in_a_receive() {
  destroyed_in([](Rank& rank) { return rank.receive(1); }, {ncclRemoteError});
}

/// A group's calls are made even if the same group finalises their communicator.
void finalised_in_a_group_with_calls() {
  Job job(2, [](Rank& rank) {
    rank.make();
    std::int32_t values[2] = {1, 2};
    must(ncclGroupStart(), "ncclGroupStart");
    for (auto& value : values) {
      must(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, nullptr),
           "ncclAllReduce in a group");
    }
    must(ncclCommFinalize(rank.comm), "ncclCommFinalize in a group");
    must(ncclGroupEnd(), "ncclGroupEnd");
    require(values[0] == 2 && values[1] == 4, "the sums are right");
    require_code(rank.sum(), {ncclInvalidUsage}, "a call once it is finalised", {"finalised"});
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  });
  job.ends_well(kLimit);
}

/// The thread ends within its group, so nothing makes the group's calls.
void left_in_a_group() {
  const Log log;
  Job job(1, [&](Rank& rank) {
    log.begin(rank);
    rank.make();
    std::thread([&] {
      float value = 1;
      must(ncclGroupStart(), "ncclGroupStart");
      for (int i = 0; i < 2; i++)
        must(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, rank.comm, nullptr),
             "ncclAllReduce in a group");
      must(ncclCommDestroy(rank.comm), "ncclCommDestroy in a group");
    }).join();
    log.wait_for({"ncclGroupStart without ncclGroupEnd", "3 of its calls", "ncclAllReduce"});
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
    std::thread([] {
      must(ncclGroupStart(), "ncclGroupStart");
      must(ncclGroupEnd(), "ncclGroupEnd");
    }).join();
    require(log.count({"ncclGroupStart"}) == 1, "a group that ended is not told of");
  });
  job.ends_well();
}

}  // namespace

std::vector<Scenario> scenarios_of_waits() {
  return {{"a collective that waits long is told of", long_collective},
          {"a receive that waits long is told of", long_receive},
          {"a start-up that waits long is told of", long_start},
          {"destroy in a collective", destroyed_in_a_collective},
          {"destroy in a receive", destroyed_in_a_receive},
          {"finalise in a group with calls", finalised_in_a_group_with_calls},
          {"a group that is never ended", left_in_a_group}};
}

}  // namespace faults
