// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ranks that are processes, each with a part of a stream group, and checks of their calls.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/exchange.hpp"
#include "gpu/program/rank_steps.hpp"
#include "group_bench.hpp"
#include "support/children.hpp"
#include "support/gpu/device_buffer.hpp"
#include "support/logged.hpp"

namespace ccoll::test {

using namespace std::chrono_literals;
using device::SocketExchange;
using device::StreamGroup;
using device::StreamGroupOptions;
using testing::check;
using testing::failures;
using testing::kLentKinds;

/// Anything that does not hang ends within this time, even on a busy machine.
constexpr auto kLong = 60s;

/// How calls are made in this run of the tests.
inline bool by_kernels() {
  static const char* const asked = std::getenv("CCOLL_TEST_GROUP");
  return asked != nullptr && asked == std::string("kernels");
}

inline StreamGroup::TimePoint in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// How many mappings of shared GPU memory this process has.
inline std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:GPU ") != line.npos;
  return count;
}
/// The mappings of one rank once everything freed is gone: slots and rooms.
constexpr std::size_t kMostMappings = 1 + GroupBench::kRooms;
/// A rank that opens others' cudaMalloc memory also keeps their process's pattern open.
constexpr int kOfSamples = 1;

/// A socket between each two ranks: for each rank, the sockets to the others.
inline std::vector<std::vector<FileDescriptor>> make_sockets(Rank size) {
  std::vector<std::vector<FileDescriptor>> sockets(size);
  for (auto& each : sockets) each.resize(size);
  for (Rank a = 0; a < size; a++) {
    for (Rank b = 0; b < a; b++) {
      int pair[2] = {};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
      sockets[a][b] = FileDescriptor(pair[0]);
      sockets[b][a] = FileDescriptor(pair[1]);
    }
  }
  return sockets;
}

using Body = std::function<void(Rank rank, device::Exchange& exchange)>;

/// The log of this process, which is a rank.
inline const testing::Heard* heard_here = nullptr;

/// Runs a process for each rank. The rank that `dies` kills itself.
inline void run_processes(const std::string& what, Rank size, const Body& body,
                          std::optional<Rank> dies = std::nullopt) {
  auto sockets = make_sockets(size);
  const std::vector<testing::Heard> heard(size);
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < size; rank++) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    failures = 0;
    heard_here = &heard[rank];
    heard_here->begin();
    SocketExchange exchange(rank, std::move(sockets[rank]));
    sockets.clear();
    body(rank, exchange);
    std::cout << std::flush;
    std::_Exit(failures == 0 ? 0 : 1);
  }
  sockets.clear();
  const auto limit = in(kLong + kLong / 2);
  for (Rank rank = 0; rank < size; rank++) {
    int status = 0;
    while (waitpid(children[rank], &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > limit) kill(children[rank], SIGKILL);
      std::this_thread::sleep_for(1ms);
    }
    const bool well = dies == rank ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                   : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    check(well, fmt::format("{}: rank {} of {} ended with status {:#x}, and said: {}", what, rank,
                            size, status, heard[rank].text()));
  }
}

/// Also makes the rank's GPU the current one.
inline StreamGroupOptions options_of(Rank rank, Rank size) {
  StreamGroupOptions options;
  options.rank = rank;
  options.size = size;
  options.by_kernels = by_kernels();
  options.device = by_kernels() ? static_cast<int>(rank) : 0;
  testing::check_cuda(cudaSetDevice(options.device), "a device");
  return options;
}

inline std::unique_ptr<GroupBench> join(Rank rank, Rank size, device::Exchange& exchange,
                                        bool by_copies = false) {
  auto options = options_of(rank, size);
  options.by_copies = by_copies;
  options.shared_bytes = 4 << 20;
  options.most_blocks = by_kernels() ? 0 : 2;
  options.trial = kLong;
  return value_or_throw(GroupBench::make(options, exchange, in(kLong)));
}

inline void try_case(GroupTrials& trials, const TeamCase& made,
                     std::optional<MemoryKind> kind = std::nullopt) {
  const Status ran = trials.run(made, kind);
  check(ran.has_value(), fmt::format("{}: {}", made.text(), ran ? "" : ran.error().message));
}

/// A ring in which every slice may be lent.
inline TeamCase ring_case(Kind kind, Rank size) {
  return test::case_of(kind, Algorithm::ring, size, 3'000, 100);
}

/// The bytes that this rank sends through slots if it can lend all that the schedule lends.
inline std::uint64_t bytes_not_lent(const TeamCase& made, Rank rank) {
  const auto steps = device::steps_of(test::lowered_for_streams(made), rank).value();
  std::uint64_t bytes = 0;
  for (const auto& fold : steps.folds) {
    const bool is_lent = fold.lent.is_any() && !(fold.lent.if_separate && made.in_place[rank]);
    if (fold.is_to_slot && !is_lent) bytes += fold.bytes;
  }
  return bytes;
}

/// It uses a graph, because a captured call waits until others have mapped the memory to lend.
inline void check_lent(GroupBench& bench, GroupTrials& trials, const TeamCase& made,
                       MemoryKind kind, bool is_lent, const std::string& what) {
  const std::uint64_t before = bench.group().slot_bytes();
  const Status ran = trials.replay(made, 2, kind);
  check(ran.has_value(),
        fmt::format("{}: {}: {}", what, made.text(), ran ? "" : ran.error().message));
  const std::uint64_t bytes = bench.group().slot_bytes() - before;
  const bool by_words =
      test::lowered_for_streams(made, bench.group().device_numbers()).program.by_words;
  const std::uint64_t expected = by_words ? 0 : bytes_not_lent(made, bench.rank());
  // If the call is in place, ranges that both buffers use may be missing on this rank.
  const bool may_be_less = made.in_place[bench.rank()];
  check(!is_lent || bytes == expected || (may_be_less && bytes < expected),
        fmt::format("{}: {}: {} bytes in slots, {} are not lent", what, made.text(), bytes,
                    expected));
}

}  // namespace ccoll::test
