// SPDX-License-Identifier: Apache-2.0
// A rank's process that is killed leaves nothing behind: neither in the processes of the others,
// nor on the host. leftovers_test; it starts itself as the other ranks: leftovers_test STORE RANK.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "ccoll/ccoll.hpp"

using namespace ccoll;
using namespace std::chrono_literals;

namespace {

constexpr int kSize = 3;

void expect(bool condition, const std::string& what) {
  if (condition) return;
  std::cout << "failed: " << what << std::endl;
  std::exit(1);
}

Communicator join(const std::string& store, int rank) {
  CommunicatorOptions options;
  options.transport = "shm";
  options.timeout = 20s;
  return Communicator::create(make_file_store(store), rank, kSize, options);
}

/// All sizes of links: lines, slots, many windows.
void use(Communicator& world) {
  for (const std::size_t count : {1, 1000, 300'000}) {
    std::vector<std::int32_t> data(count, world.rank());
    world.all_reduce(std::span(data));
    expect(data.back() == kSize * (kSize - 1) / 2, "the sum is right");
  }
}

/// Calls until it is killed.
int be_killed(const std::string& store, int rank) {
  auto world = join(store, rank);
  use(world);
  try {
    for (;;) world.barrier();
  } catch (const Error&) {
    for (;;) pause();  // the other victim has gone first
  }
}

struct Held {
  std::size_t descriptors = 0, mappings = 0, shared_files = 0;
  std::string text() const {
    return std::to_string(descriptors) + " descriptors, " + std::to_string(mappings) +
           " mappings of ccoll's, " + std::to_string(shared_files) + " files in /dev/shm";
  }
  friend bool operator==(const Held&, const Held&) = default;
};
Held held_now() {
  const auto entries = [](const char* path) {
    const std::filesystem::directory_iterator all(path);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  };
  Held held{entries("/proc/self/fd"), 0, 0};
  if (std::filesystem::exists("/dev/shm")) held.shared_files = entries("/dev/shm");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    held.mappings += line.find("memfd:ccoll") != line.npos;
  return held;
}

void kill_all(const std::string& store) {
  std::vector<pid_t> children(kSize - 1);
  for (int rank = 1; rank < kSize; rank++) {
    const auto number = std::to_string(rank);
    const char* const arguments[] = {"leftovers_test", store.c_str(), number.c_str(), nullptr};
    expect(posix_spawn(&children[static_cast<std::size_t>(rank - 1)], "/proc/self/exe", nullptr,
                       nullptr, const_cast<char**>(arguments), environ) == 0,
           "a process starts");
  }
  auto world = join(store, 0);
  expect(world.transport_to(1) == "shm", "ranks share memory");
  use(world);
  expect(held_now().mappings > 1, "links are mapped");
  for (const pid_t child : children) kill(child, SIGKILL);
  const auto began = std::chrono::steady_clock::now();
  try {
    for (;;) world.barrier();
  } catch (const Error& error) {
    expect(error.kind() == ErrorKind::peer_lost, error.what());
  }
  expect(std::chrono::steady_clock::now() - began < 2s, "a killed rank is found out in time");
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 3) return be_killed(arguments[1], std::atoi(arguments[2]));
  const auto directory =
      std::filesystem::temp_directory_path() / ("ccoll_leftovers_" + std::to_string(getpid()));
  std::filesystem::create_directory(directory);
  // The service thread would end with the last communicator, and begin again.
  auto alone = Communicator::create(make_inproc_store(), 0, 1);
  Held first;
  for (int round = 0; round < 5; round++) {
    kill_all((directory / std::to_string(round)).string());
    if (round == 0) {
      std::this_thread::sleep_for(500ms);
      first = held_now();  // with what a process keeps from its first job on
      continue;
    }
    for (int tries = 0; tries < 300 && held_now() != first; tries++)
      std::this_thread::sleep_for(10ms);
    expect(held_now() == first, "first " + first.text() + "; after more jobs " + held_now().text());
  }
  expect(first.mappings <= 2, "links stay mapped: " + first.text());
  std::filesystem::remove_all(directory);
  return 0;
}
