// SPDX-License-Identifier: Apache-2.0
// Survivors and newcomers form a larger communicator through the store; one of the first ranks is
// killed. newcomers_test TRANSPORT starts itself as the ranks: newcomers_test TRANSPORT STORE
// NUMBER.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/directory.hpp"
#include "support/ranks.hpp"
#include "support/verdict.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::check;

namespace {

constexpr int kFirst = 4;      ///< ranks of the first epoch
constexpr int kVictim = 1;     ///< one of the first ranks
constexpr int kNewcomers = 2;  ///< ranks that join afterwards
constexpr int kTag = 7;
constexpr unsigned kLimit = 60;  ///< seconds until SIGALRM kills a process

CommunicatorOptions options_for(const std::string& transport) {
  return testing::options_for(transport, 20s, 30s);
}

/// Small and large sums use the lines, slots and windows of the new communicator.
void sum_up(Communicator& ranks) {
  for (const std::size_t count : {1, 3'000, 300'000}) {
    std::vector<std::int32_t> data(count, ranks.rank() + 1);
    ranks.all_reduce(std::span(data));
    check(data.front() == ranks.size() * (ranks.size() + 1) / 2 && data.back() == data.front(),
          "the sum over " + std::to_string(ranks.size()) + " ranks is right");
  }
}

/// Runs until the victim's loss is found; then the survivors continue among themselves.
Communicator live_through_a_loss(Communicator& world) {
  try {
    for (;;) sum_up(world);
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::peer_lost, error.what());
  }
  auto survivors = world.shrink();
  check(survivors.size() == kFirst - 1, "all others are left");
  sum_up(survivors);
  return survivors;
}

/// A message that was sent in an earlier epoch and never received stays in that epoch.
void leave_a_message(Communicator& survivors) {
  const std::int32_t early = -1;
  if (survivors.rank() == 0) survivors.send_async(std::span(&early, 1), 1, kTag);
}
void exchange_messages(Communicator& all) {
  std::int32_t value = all.rank();
  if (all.rank() == 0) all.send(std::span(&value, 1), 1, kTag);
  if (all.rank() == 1) all.recv(std::span(&value, 1), 0, kTag);
  check(all.rank() != 1 || value == 0, "a message of an earlier epoch was received");
}

/// The second epoch has keys of its own in the shared store.
void go_on(const std::shared_ptr<Store>& store, int rank, int size, const std::string& transport) {
  auto all = Communicator::create(make_prefix_store(store, "epoch 2/"), rank, size,
                                  options_for(transport));
  check(all.size() == size && all.rank() == rank, "the new ranks are as asked for");
  exchange_messages(all);
  sum_up(all);
  all.close();
}

void be_one_of_the_first(const std::shared_ptr<Store>& store, int rank,
                         const std::string& transport) {
  auto world = Communicator::create(store, rank, kFirst, options_for(transport));
  if (rank == kVictim) {
    sum_up(world);
    ::raise(SIGKILL);
  }
  auto survivors = live_through_a_loss(world);
  leave_a_message(survivors);
  if (survivors.rank() == 0) store->set("survivors", std::to_string(survivors.size()));
  go_on(store, survivors.rank(), survivors.size() + kNewcomers, transport);
}

void be_newcomer(const std::shared_ptr<Store>& store, int number, const std::string& transport) {
  const int survivors = std::stoi(store->get("survivors", 30s));
  go_on(store, survivors + number, survivors + kNewcomers, transport);
}

int be_process(const std::string& transport, const std::string& path, int number) {
  ::alarm(kLimit);
  const auto store = make_file_store(path);
  if (number < kFirst)
    be_one_of_the_first(store, number, transport);
  else
    be_newcomer(store, number - kFirst, transport);
  return testing::failures == 0 ? 0 : 1;
}

int run_all(std::string transport) {
  const testing::Directory directory;
  auto store = directory.file("store");
  std::vector<pid_t> children;
  for (int number = 0; number < kFirst + kNewcomers; number++) {
    std::string name = "newcomers_test", text = std::to_string(number);
    char* const arguments[] = {name.data(), transport.data(), store.data(), text.data(), nullptr};
    pid_t child = -1;
    check(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ) == 0,
          "a process starts");
    children.push_back(child);
  }
  for (int number = 0; number < kFirst + kNewcomers; number++) {
    int status = 0;
    ::waitpid(children[static_cast<std::size_t>(number)], &status, 0);
    const bool well = number == kVictim ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                        : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    check(well, "process " + std::to_string(number) + " ended with " + std::to_string(status));
  }
  return testing::failures == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count == 4) return be_process(arguments[1], arguments[2], std::atoi(arguments[3]));
  if (count == 2) return run_all(arguments[1]);
  std::cerr << "usage: newcomers_test TRANSPORT\n";
  return 2;
} catch (const std::exception& error) {
  std::cout << "failed: " << error.what() << std::endl;
  return 1;
}
