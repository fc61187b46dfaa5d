// SPDX-License-Identifier: Apache-2.0
// Two jobs start at one store at once: no rank may succeed in a communicator with ranks of both.
// Ranks are processes, forked before this one creates anything of ccoll's.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/children.hpp"
#include "support/directory.hpp"
#include "support/eventually.hpp"
#include "support/kept_port.hpp"
#include "support/real_time.hpp"
#include "support/verdict.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::check;

namespace {

using Variables = std::map<std::string, std::string>;

constexpr unsigned kLimit = 100;  ///< seconds until SIGALRM kills a process

/// How a rank ends; the exit status of its process.
enum Ending { well = 0, failed = 1, slowly = 2, mixed = 3 };

/// Joins the others and stays until all `processes` have come, well or not.
Ending live(int job, std::chrono::seconds limit, std::atomic<int>& came, int processes) {
  const auto began = std::chrono::steady_clock::now();
  auto options = CommunicatorOptions::from_environment();
  options.start_timeout = limit;
  options.timeout = limit;
  bool has_come = false;
  try {
    auto ranks = Communicator::create(options);
    has_come = true;
    came++;
    std::vector<int> jobs(static_cast<std::size_t>(ranks.size()));
    const std::vector<int> own{job};
    ranks.all_gather(own, jobs);
    static_cast<void>(testing::eventually([&] { return came == processes; }, limit));
    testing::leave_time(1s);  // for news of a rank that two processes claim
    ranks.barrier();
    ranks.close();
    return std::ranges::count(jobs, job) == std::ssize(jobs) ? well : mixed;
  } catch (const Error& error) {
    if (!has_come) came++;
    std::cout << "rank " + std::string(std::getenv("RANK")) + " of job " + std::to_string(job) +
                     ": " + error.what() + "\n"
              << std::flush;
    return std::chrono::steady_clock::now() - began < limit / 2 ? failed : slowly;
  }
}

/// Each job's endings by rank. `of_job` holds the variables that differ between the jobs.
std::vector<std::vector<Ending>> run(int size, std::chrono::seconds limit, const Variables& common,
                                     const std::vector<Variables>& of_job) {
  std::cout.flush();
  const testing::SharedCount came;
  const int processes = size * static_cast<int>(of_job.size());
  std::vector<std::vector<pid_t>> children(of_job.size());
  for (int rank = 0; rank < size; rank++) {
    for (std::size_t job = 0; job < of_job.size(); job++) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(kLimit);
        auto all = of_job[job];
        all.insert(common.begin(), common.end());
        all.insert({{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(size)}});
        for (const auto& [name, value] : all) ::setenv(name.c_str(), value.c_str(), 1);
        std::exit(live(static_cast<int>(job), limit, *came, processes));
      }
      children[job].push_back(child);
    }
  }
  std::vector<std::vector<Ending>> endings(of_job.size());
  for (std::size_t job = 0; job < of_job.size(); job++) {
    for (const pid_t child : children[job]) {
      int status = -1;
      waitpid(child, &status, 0);
      check(WIFEXITED(status), "a rank ends by itself");
      endings[job].push_back(static_cast<Ending>(WEXITSTATUS(status)));
    }
  }
  return endings;
}

/// No rank can know which job it belongs to: none may succeed in a communicator of both jobs.
/// (Ranks that come after the others have given up wait for them.)
void check_unnamed(const std::string& what, int size, const Variables& common,
                   const std::vector<Variables>& of_job) {
  for (const auto& job : run(size, 8s, common, of_job))
    check(std::ranges::count(job, mixed) == 0, what + ": no communicator of two jobs ends well");
}

/// One job gets the port and works; the other hears at once that it is taken.
void check_named(const std::string& what, const Variables& common,
                 const std::vector<Variables>& of_job) {
  constexpr int kSize = 3;
  auto endings = run(kSize, 60s, common, of_job);
  if (endings[0][0] != well) std::swap(endings[0], endings[1]);
  check(std::ranges::count(endings[0], well) == kSize, what + ": one job works");
  check(std::ranges::count(endings[1], failed) == kSize, what + ": the other hears at once");
}

Variables at(const testing::KeptPort& port, const std::string& name) {
  return {{"MASTER_ADDR", "127.0.0.1"},
          {name, port.address().substr(port.address().rfind(':') + 1)}};
}

}  // namespace

int main() {
  for (int round = 0; round < 3; round++) {
    for (const int size : {2, 4}) {
      const testing::KeptPort port;
      check_unnamed("one port", size, at(port, "MASTER_PORT"), {{}, {}});
      const testing::Directory directory;
      check_unnamed("one file", size, {{"CCOLL_STORE", "file://" + directory.file("store")}},
                    {{}, {}});
    }
  }
  const testing::KeptPort first, second, third;
  check_named("CCOLL_JOB", at(first, "MASTER_PORT"), {{{"CCOLL_JOB", "a"}}, {{"CCOLL_JOB", "b"}}});
  check_named("a restart", at(second, "MASTER_PORT"),
              {{{"TORCHELASTIC_RUN_ID", "x"}, {"TORCHELASTIC_RESTART_COUNT", "0"}},
               {{"TORCHELASTIC_RUN_ID", "x"}, {"TORCHELASTIC_RESTART_COUNT", "1"}}});
  auto torchrun = at(third, "CCOLL_PORT");
  torchrun.insert({{"TORCHELASTIC_RUN_ID", "none"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  check_named("torchrun's own port", torchrun,
              {{{"MASTER_PORT", "29501"}}, {{"MASTER_PORT", "29502"}}});
  return testing::failures;
}
