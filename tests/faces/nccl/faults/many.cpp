// SPDX-License-Identifier: Apache-2.0
// Many communicators, at once and in sequence, and their remains.
#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "job.hpp"

namespace faults {

namespace {

int entries(const char* folder) {
  int count = 0;
  DIR* const opened = ::opendir(folder);
  if (opened == nullptr) return -1;
  while (::readdir(opened) != nullptr) ++count;
  ::closedir(opened);
  return count;
}

/// Resident memory of this process, in KiB.
long resident() {
  std::ifstream file("/proc/self/statm");
  long total = 0;
  long pages = 0;
  file >> total >> pages;
  return pages * (::sysconf(_SC_PAGESIZE) / 1024);
}

struct Use {
  int descriptors = entries("/proc/self/fd");
  int threads = entries("/proc/self/task");
  long memory = resident();

  std::string text() const {
    return std::to_string(descriptors) + " descriptors, " + std::to_string(threads) + " threads, " +
           std::to_string(memory) + " KiB";
  }
};

/// 64 communicators of two ranks, all used before the first one ends.
void sixty_four() {
  Job job(2, [](Rank& rank) {
    ncclComm_t comms[64];
    for (int i = 0; i < 64; ++i) {
      must(ncclCommInitRank(&comms[i], 2, rank.id(i), rank.number), "ncclCommInitRank");
    }
    for (auto* const comm : comms) {
      rank.comm = comm;
      must(rank.sum(), "ncclAllReduce");
    }
    // All are used in one group, too.
    std::int32_t values[64];
    must(ncclGroupStart(), "ncclGroupStart");
    for (int i = 0; i < 64; ++i) {
      values[i] = i;
      must(ncclAllReduce(&values[i], &values[i], 1, ncclInt32, ncclSum, comms[i], nullptr),
           "ncclAllReduce in a group");
    }
    must(ncclGroupEnd(), "ncclGroupEnd");
    for (int i = 0; i < 64; ++i) require(values[i] == 2 * i, "each sum is right");
    for (auto* const comm : comms) must(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  job.ends_well(std::chrono::seconds(60));
}

/// Many splits in sequence, some of them in groups. Their resource use must not grow.
void thousand_splits() {
  Job job(2, [](Rank& rank) {
    rank.make();
    Use before;
    for (int i = 0; i < 1000; ++i) {
      ncclComm_t parts[2] = {};
      const bool in_group = i % 10 == 0;
      if (in_group) must(ncclGroupStart(), "ncclGroupStart");
      must(ncclCommSplit(rank.comm, 0, -rank.number, &parts[0], nullptr), "ncclCommSplit");
      if (in_group) {
        must(ncclCommSplit(rank.comm, rank.number, 0, &parts[1], nullptr), "ncclCommSplit");
        must(ncclGroupEnd(), "ncclGroupEnd");
      }
      std::int32_t value = 1;
      must(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, parts[0], nullptr),
           "ncclAllReduce");
      require(value == 2, "the sum is right");
      for (auto* const part : parts) must(ncclCommDestroy(part), "ncclCommDestroy");
      if (i == 100) before = Use();  // by now everything that is kept for reuse exists
    }
    const Use after;
    require(after.descriptors <= before.descriptors + 4 && after.threads <= before.threads + 2 &&
                after.memory <= before.memory + 16 * 1024,
            "900 splits leave nothing: " + before.text() + ", then " + after.text());
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  });
  job.ends_well(std::chrono::seconds(120));
}

/// Separate communicators, created and ended, normally or by abort.
void made_and_ended() {
  Job job(1, [](Rank&) {
    Use before;
    for (int i = 0; i < 200; ++i) {
      ncclComm_t comms[2] = {};
      must(ncclCommInitAll(comms, 2, nullptr), "ncclCommInitAll");
      for (auto* const comm : comms) {
        must(i % 2 == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm), "the end");
      }
      if (i == 40) before = Use();
    }
    const Use after;
    require(after.descriptors <= before.descriptors + 4 && after.threads <= before.threads + 2 &&
                after.memory <= before.memory + 16 * 1024,
            "160 jobs leave nothing: " + before.text() + ", then " + after.text());
  });
  job.ends_well(std::chrono::seconds(60));
}

/// Threads that each run their own job concurrently.
void from_many_threads() {
  Job job(1, [](Rank&) {
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&wrong, t] {
        for (int i = 0; i < 10; ++i) {
          ncclComm_t comms[2] = {};
          std::int32_t values[2] = {t, i};
          bool well = ncclCommInitAll(comms, 2, nullptr) == ncclSuccess;
          well = well && ncclGroupStart() == ncclSuccess;
          for (int r = 0; well && r < 2; ++r) {
            well = ncclAllReduce(&values[r], &values[r], 1, ncclInt32, ncclSum, comms[r],
                                 nullptr) == ncclSuccess;
          }
          well = well && ncclGroupEnd() == ncclSuccess && values[0] == t + i && values[1] == t + i;
          for (auto* const comm : comms) well = ncclCommDestroy(comm) == ncclSuccess && well;
          if (!well) ++wrong;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    require(wrong == 0, "jobs of several threads do not meet");
  });
  job.ends_well(std::chrono::seconds(60));
}

}  // namespace

std::vector<Scenario> scenarios_of_many() {
  return {{"64 communicators", sixty_four},
          {"1,000 splits", thousand_splits},
          {"200 jobs one after another", made_and_ended},
          {"8 threads with jobs of their own", from_many_threads}};
}

}  // namespace faults
