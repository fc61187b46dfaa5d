// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace faults {

using Clock = std::chrono::steady_clock;

void require(bool holds, const std::string& what) {
  if (!holds) throw Unexpected(what + "; last error: " + ncclGetLastError(nullptr));
}

void require_code(ncclResult_t got, std::initializer_list<ncclResult_t> expected,
                  const std::string& what, std::initializer_list<const char*> words) {
  require(std::find(expected.begin(), expected.end(), got) != expected.end(),
          what + " gives " + std::to_string(got));
  for (const char* word : words) {
    require(std::strstr(ncclGetLastError(nullptr), word) != nullptr,
            what + ": the text does not say '" + word + "'");
  }
}

void must(ncclResult_t code, const char* what) { require_code(code, {ncclSuccess}, what); }

ncclUniqueId Rank::id(int index) {
  if (number == 0) {
    must(ncclGetUniqueId(&shared.ids[index]), "ncclGetUniqueId");
    shared.ids_ready = index + 1;
  }
  wait_until("the id", [&] { return shared.ids_ready > index; });
  return shared.ids[index];
}

void Rank::make() {
  must(ncclCommInitRank(&comm, count, id(), number), "ncclCommInitRank");
  must(sum(), "the first ncclAllReduce");
}

ncclResult_t Rank::sum() {
  float value = 1;
  const auto code = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
  if (code == ncclSuccess) require(value == static_cast<float>(count), "the sum is right");
  return code;
}

ncclResult_t Rank::send(int to) {
  float value = 7;
  return ncclSend(&value, 1, ncclFloat32, to, comm, nullptr);
}

ncclResult_t Rank::receive(int from) {
  float value = 0;
  const auto code = ncclRecv(&value, 1, ncclFloat32, from, comm, nullptr);
  if (code == ncclSuccess) require(value == 7, "the message is right");
  return code;
}

ncclResult_t Rank::async_error() const {
  ncclResult_t state = ncclSuccess;
  must(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
  return state;
}

void Rank::wait_for(int stage, int ranks) const {
  wait_until("stage " + std::to_string(stage), [&] { return shared.stage[stage] >= ranks; });
}

void Rank::wait_until(const std::string& what, const std::function<bool()>& condition) {
  const auto limit = Clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    require(Clock::now() < limit, what + " does not come");
    ::usleep(500);
  }
}

Job::Job(int ranks, const Body& body) : killed_(static_cast<std::size_t>(ranks)) {
  void* const page =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw Unexpected("no shared memory for the job");
  shared_ = new (page) Shared;
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      processes_.push_back(child);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 0;
    try {
      Rank own(rank, ranks, *shared_);
      body(own);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "  rank %d: %s\n", rank, error.what());
      status = 1;
    }
    std::exit(status);
  }
}

Job::~Job() {
  for (const pid_t process : processes_) {
    if (process <= 0) continue;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  ::munmap(shared_, sizeof(Shared));
}

void Job::signal(int rank, int number) {
  const auto index = static_cast<std::size_t>(rank);
  if (number == SIGKILL) killed_[index] = true;
  ::kill(processes_[index], number);
}

void Job::wait_for(int stage, int ranks) const {
  Rank::wait_until("stage " + std::to_string(stage),
                   [&] { return shared_->stage[stage] >= ranks; });
}

void Job::ends_well(std::chrono::seconds within) {
  const auto limit = Clock::now() + within;
  std::string wrong;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    int status = 0;
    pid_t got = 0;
    while ((got = ::waitpid(processes_[i], &status, WNOHANG)) == 0 && Clock::now() < limit) {
      ::usleep(1000);
    }
    if (got == 0) {
      wrong += " rank " + std::to_string(i) + " does not end;";
      continue;
    }
    processes_[i] = 0;
    if (!killed_[i] && status != 0) {
      wrong += " rank " + std::to_string(i) + " ends with status " + std::to_string(status) + ";";
    }
  }
  if (!wrong.empty()) throw Unexpected(wrong);
}

void Watch::within(double seconds, const std::string& what) const {
  const std::chrono::duration<double> took = Clock::now() - begin_;
  require(took.count() <= seconds, what + " takes " + std::to_string(took.count()) + " s");
}

}  // namespace faults
