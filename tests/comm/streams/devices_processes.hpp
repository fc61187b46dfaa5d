// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ranks as processes, or as threads of several, on GPUs that the host plays.

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <set>
#include <thread>

#include "any_device.hpp"
#include "devices.hpp"
#include "support/children.hpp"
#include "support/directory.hpp"

namespace ccoll::testing {

using namespace std::chrono_literals;

/// Anything that does not hang ends within this time, even on a busy machine.
inline constexpr auto kLong = 60s;

using Body = std::function<void(Communicator& communicator, Communicator& host)>;

/// Whether each rank has a GPU of its own in this run of the tests.
inline const bool has_gpus = way() == "team";
/// The way that collectives take in this run.
inline std::string way_then() { return has_gpus ? "team" : "steps"; }

struct Ranks {
  int processes = 2;
  int of_each = 1;            ///< threads per process
  std::set<int> killed = {};  ///< processes that kill themselves
  std::set<int> without_gpu = {};
  std::string fault = {};  ///< CCOLL_GPU_FAULT
  std::chrono::milliseconds timeout = 30s;
};

inline void run_rank(const Ranks& ranks, const std::string& directory, int rank, const Body& body) {
  const int size = ranks.processes * ranks.of_each;
  auto options = options_for("", ranks.timeout);
  const auto store = make_file_store(directory + "/store");
  auto host = Communicator::create(make_prefix_store(store, "host"), rank, size, options);
  const int gpu = has_gpus ? rank : 0;
  options.device.ordinal = ranks.without_gpu.contains(rank) ? kHost : gpu;
  check_cuda(cudaSetDevice(gpu), "a device");
  auto communicator =
      Communicator::create(make_prefix_store(store, "devices"), rank, size, options);
  body(communicator, host);
}

/// Starts processes of that many ranks each.
/// `prepare`: called first in each.
inline void run_processes(
    const std::string& what, const Ranks& ranks, const Body& body,
    const std::function<void(int process)>& prepare = [](int) {}) {
  const Directory directory;
  std::vector<pid_t> children;
  for (int process = 0; process < ranks.processes; process++) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (has_gpus) cuda_on_host_has(ranks.processes * ranks.of_each);
    prepare(process);
    if (!ranks.fault.empty()) setenv("CCOLL_GPU_FAULT", ranks.fault.c_str(), 1);
    const auto errors = run_threads(ranks.of_each, [&](int thread) {
      run_rank(ranks, directory.path(), process * ranks.of_each + thread, body);
    });
    int wrong = 0;
    for (const auto& error : errors) {
      if (error.empty()) continue;
      std::cout << fmt::format("{}, by {}: a rank of process {}: {}\n", what, way_then(), process,
                               error);
      wrong = 1;
    }
    std::cout << std::flush;
    std::_Exit(wrong);
  }
  const auto limit = std::chrono::steady_clock::now() + kLong;
  for (int process = 0; process < ranks.processes; process++) {
    int status = 0;
    const auto child = children[static_cast<std::size_t>(process)];
    const auto rest = limit - std::chrono::steady_clock::now();
    if (!eventually([&] { return waitpid(child, &status, WNOHANG) != 0; },
                    std::chrono::ceil<std::chrono::milliseconds>(rest))) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    const bool well = ranks.killed.contains(process)
                          ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                          : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    check(well, fmt::format("{}: process {} ended with status {:#x}", what, process, status));
  }
}

template <typename Buffer>
Work sums(Communicator& c, const Buffer& buffer, std::size_t count, cudaStream_t stream,
          ReduceOp op = ReduceOp::sum) {
  return c.all_reduce_async(Block(buffer.data(), count, kType), op, in(stream));
}

// In devices_losses_test.cpp.
void a_rank_that_aborts();
void a_rank_that_is_killed_amid_messages();
void a_rank_that_is_killed(bool in_graph, MemoryKind kind, std::size_t count = 30'000);
void a_graph_that_stands(bool is_killed);
void a_rank_that_is_killed_after_a_close();

}  // namespace ccoll::testing
