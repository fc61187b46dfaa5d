// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Jobs with faults: the test forks a process for each rank, which reports what it did not expect.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "../newer.h"

namespace faults {

struct Unexpected : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws Unexpected unless it holds, with the last error's text.
void require(bool holds, const std::string& what);
/// The same for a code, and for words that the error's text must contain.
void require_code(ncclResult_t got, std::initializer_list<ncclResult_t> expected,
                  const std::string& what, std::initializer_list<const char*> words = {});
void must(ncclResult_t code, const char* what);

/// Shared by the processes of a job.
struct Shared {
  ncclUniqueId ids[64];
  std::atomic<int> ids_ready{0};
  std::atomic<int> stage[16];
};

class Rank {
 public:
  Rank(int number, int count, Shared& shared) : number(number), count(count), shared(shared) {}

  const int number;
  const int count;
  Shared& shared;
  ncclComm_t comm = nullptr;

  /// The `index`-th id of the job, made by rank 0; call it in order.
  ncclUniqueId id(int index = 0);
  /// Creates the communicator of all ranks and uses it once.
  void make();
  ncclResult_t sum();
  ncclResult_t send(int to);
  ncclResult_t receive(int from);
  ncclResult_t async_error() const;

  /// Reports that this rank has reached the stage; wait_for() waits until `ranks` have.
  void reach(int stage) { ++shared.stage[stage]; }
  void wait_for(int stage, int ranks) const;
  /// Waits for a condition that must become true within some seconds.
  static void wait_until(const std::string& what, const std::function<bool()>& condition);
};

class Job {
 public:
  using Body = std::function<void(Rank& rank)>;

  /// Starts as many processes; each exits with 0 unless its body throws.
  Job(int ranks, const Body& body);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Shared& shared() { return *shared_; }
  void signal(int rank, int number);
  void wait_for(int stage, int ranks) const;
  /// Waits until all but the killed ones exit with 0 in time; else throws Unexpected.
  void ends_well(std::chrono::seconds within = std::chrono::seconds(20));

 private:
  Shared* shared_;
  std::vector<pid_t> processes_;
  std::vector<bool> killed_;
};

/// Measures the time that a part of a test takes.
class Watch {
 public:
  void within(double seconds, const std::string& what) const;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

struct Scenario {
  const char* name;
  void (*run)();
};
std::vector<Scenario> scenarios_of_ends();
std::vector<Scenario> scenarios_of_mismatches();
std::vector<Scenario> scenarios_of_aborts();
std::vector<Scenario> scenarios_of_starts();
std::vector<Scenario> scenarios_of_many();
std::vector<Scenario> scenarios_of_waits();

}  // namespace faults
