// SPDX-License-Identifier: Apache-2.0
// Processes that end with a communicator in a global object, which is destroyed after everything
// that ccoll itself registers for the process's exit. No Catch2: the children run every exit
// handler, and only those of a user's program.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/eventually.hpp"
#include "support/verdict.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::check;
using testing::failures;
using Clock = std::chrono::steady_clock;

namespace {

std::optional<Communicator> world;
std::vector<Communicator> ranks;

constexpr int kSize = 3;
constexpr auto kSlow = 700ms;  // a goodbye that nobody sends costs more than this, each time
constexpr int kAttempts = 5;   // a busy machine is slow now and then

/// The exit status of a process that runs `body` and returns from main; -1 if that takes too long.
int status_of(pid_t child, Clock::time_point limit) {
  int status = 0;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now());
  if (!testing::eventually([&] { return waitpid(child, &status, WNOHANG) != 0; }, rest)) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

pid_t in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) std::exit(body());
  return child;
}

CommunicatorOptions options_for(const char* transport) {
  CommunicatorOptions options;
  options.transport = transport;
  options.timeout = 20s;
  return options;
}

void sum_up() {
  std::int32_t value = 1;
  world->all_reduce(std::span(&value, 1));
  if (value != kSize) std::exit(3);
}

/// Rank 0 continues: it sees the others' links end, and does not hear that they were lost.
int stay() {
  try {
    for (int round = 0; round < 1000; round++) world->barrier();
  } catch (const Error& error) {
    const std::string what = error.what();
    const bool good = error.kind() == ErrorKind::peer_lost && what.find("was lost") == what.npos;
    if (!good) std::cout << what << std::endl;
    return good ? 0 : 4;
  }
  return 5;
}

void processes(const char* transport) {
  const auto directory =
      std::filesystem::temp_directory_path() / ("ccoll_exit_" + std::to_string(getpid()));
  std::vector<pid_t> children;
  for (int rank = 0; rank < kSize; rank++)
    children.push_back(in_child([&, rank] {
      world = Communicator::create(make_file_store(directory.string()), rank, kSize,
                                   options_for(transport));
      sum_up();
      return rank == 0 ? stay() : 0;
    }));
  const auto start = Clock::now();
  for (const pid_t child : children) {
    const int status = status_of(child, start + 10s);
    check(status == 0,
          std::string("processes by ") + transport + ": a status is " + std::to_string(status));
  }
  std::filesystem::remove_all(directory);
}

/// Data that a process sent before it ended is available to later receives.
void last_words(const char* transport) {
  const auto store =
      std::filesystem::temp_directory_path() / ("ccoll_words_" + std::to_string(getpid()));
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const auto come = [&](int rank) {
    world = Communicator::create(make_file_store(store.string()), rank, 2, options_for(transport));
  };
  const pid_t receiver = in_child([&] {
    come(0);
    char gone = 0;
    (void)!read(ends[0], &gone, 1);
    std::vector<int> words(10'000);
    world->recv(std::span(words), 1);
    return words == std::vector<int>(10'000, 42) ? 0 : 6;
  });
  const pid_t sender = in_child([&] {
    come(1);
    world->send(std::span<const int>(std::vector<int>(10'000, 42)), 0);
    return 0;
  });
  const auto limit = Clock::now() + 20s;
  const int sent = status_of(sender, limit);
  (void)!write(ends[1], "x", 1);
  const int received = status_of(receiver, limit);
  check(sent == 0 && received == 0, std::string("last words by ") + transport + ": sender " +
                                        std::to_string(sent) + ", receiver " +
                                        std::to_string(received));
  close(ends[0]);
  close(ends[1]);
  std::filesystem::remove(store);
}

/// The time from the end of one process's main to the end of the process.
Clock::duration time_to_end(const char* transport) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = in_child([&] {
    ranks = Communicator::create_all(kSize, options_for(transport));
    {
      CallGroup group;
      for (auto& rank : ranks) rank.barrier();
      group.end();
    }
    auto half_done = ranks[0].barrier_async();
    (void)!write(ends[1], "x", 1);
    return 0;
  });
  char begun = 0;
  (void)!read(ends[0], &begun, 1);
  const auto start = Clock::now();
  const int status = status_of(child, start + 10s);
  check(status == 0,
        std::string("ranks of one process by ") + transport + ": status " + std::to_string(status));
  const auto taken = Clock::now() - start;
  close(ends[0]);
  close(ends[1]);
  return taken;
}

void one_process(const char* transport) {
  for (int attempt = 0; attempt < kAttempts; attempt++)
    if (time_to_end(transport) < kSlow) return;
  check(false, std::string("the end takes long by ") + transport);
}

}  // namespace

int main() {
  one_process("inproc");
  one_process("shm");
  one_process("tcp");
  for (const char* transport : {"shm", "tcp"}) {
    processes(transport);
    last_words(transport);
  }
  return failures;
}
