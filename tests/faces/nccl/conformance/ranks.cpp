// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "driver.hpp"

namespace conformance {

namespace {

using Clock = std::chrono::steady_clock;

/// Shared by the processes of a job: the program's own channel for the id.
struct Shared {
  std::atomic<bool> has_id{false};
  ncclUniqueId id;
};

ncclUniqueId common_id(Shared& shared, int process) {
  if (process == 0) {
    if (ncclGetUniqueId(&shared.id) != ncclSuccess) {
      throw Wrong(std::string("ncclGetUniqueId: ") + ncclGetLastError(nullptr));
    }
    shared.has_id = true;
  }
  while (!shared.has_id) ::usleep(200);
  return shared.id;
}

/// Runs one process's ranks; returns whether all succeeded.
bool run_process(const Request& request, int process, Shared& shared) {
  const Layout& layout = request.layout;
  const auto drive = [&](std::vector<int> locals, const ncclUniqueId& id, Memory& memory) {
    try {
      Driver(request, process, std::move(locals), id, memory).run();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s, process %d: %s\n", layout.text().c_str(), process, error.what());
      // The other ranks would wait for this one without a limit.
      std::fflush(nullptr);
      ::_exit(1);
    }
  };
  try {
    const auto memory =
        request.on_devices ? device_memory(layout.ranks_per_process) : host_memory();
    if (memory == nullptr) throw Wrong("this program was built without devices");
    const ncclUniqueId id = common_id(shared, process);
    std::vector<int> locals;
    for (int i = 0; i < layout.ranks_per_process; ++i) locals.push_back(i);
    if (layout.mode == Mode::grouped || layout.mode == Mode::init_all) {
      drive(locals, id, *memory);
    } else {
      std::vector<std::thread> threads;
      for (const int local : locals) {
        threads.emplace_back([&, local] { drive({local}, id, *memory); });
      }
      for (auto& thread : threads) thread.join();
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s, process %d: %s\n", layout.text().c_str(), process, error.what());
    return false;
  }
  return true;
}

/// Waits for all, and kills those that hang.
bool all_end_well(const std::vector<pid_t>& children, Clock::time_point limit) {
  bool well = true;
  for (const pid_t child : children) {
    int status = 0;
    pid_t got = 0;
    while ((got = ::waitpid(child, &status, WNOHANG)) == 0) {
      // Once one process has failed, the others get only a short time.
      if (!well) limit = std::min(limit, Clock::now() + std::chrono::seconds(10));
      if (Clock::now() > limit) {
        std::fprintf(stderr, "process %d does not end: it is killed\n", child);
        ::kill(child, SIGKILL);
        limit = Clock::now() + std::chrono::seconds(1);
        ::waitpid(child, &status, 0);
        break;
      }
      ::usleep(1000);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) well = false;
  }
  return well;
}

}  // namespace

const char* name(Mode mode) {
  switch (mode) {
    case Mode::threads:
      return "threads";
    case Mode::polled:
      return "polled";
    case Mode::grouped:
      return "grouped";
    case Mode::init_all:
      return "init_all";
  }
  return "?";
}

std::string Layout::text() const {
  return std::to_string(processes) + "x" + std::to_string(ranks_per_process) + " " + name(mode);
}

bool run(const Request& request) {
  void* const page =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  auto* const shared = new (page) Shared;
  std::fflush(nullptr);
  std::vector<pid_t> children;
  const auto limit = Clock::now() + std::chrono::seconds(request.full ? 3600 : 120);
  for (int process = 0; process < request.layout.processes; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool well = run_process(request, process, *shared);
      std::fflush(nullptr);
      ::_exit(well ? 0 : 1);
    }
    children.push_back(child);
  }
  const bool well = all_end_well(children, limit);
  ::munmap(page, sizeof(Shared));
  return well;
}

}  // namespace conformance
