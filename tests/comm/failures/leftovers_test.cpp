// SPDX-License-Identifier: Apache-2.0
// A rank's process that is killed leaves nothing behind, neither in the other processes nor on the
// host. leftovers_test starts itself as the other ranks: leftovers_test STORE RANK.
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/eventually.hpp"
#include "support/held.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::eventually;
using testing::Held;
using testing::held_at_rest;
using testing::held_now;

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

/// These sizes use lines, slots and many windows.
void use(Communicator& world) {
  for (const std::size_t count : {1, 1000, 300'000}) {
    std::vector<std::int32_t> data(count, world.rank());
    world.all_reduce(std::span(data));
    expect(data.back() == kSize * (kSize - 1) / 2, "the sum is right");
  }
}

/// Makes calls until it is killed.
int be_killed(const std::string& store, int rank) {
  auto world = join(store, rank);
  use(world);
  try {
    for (;;) world.barrier();
  } catch (const Error&) {
    for (;;) pause();  // the other victim is dead already
  }
}

/// How many of this user's files have ccoll's name.
std::size_t named_files() {
  std::size_t files = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none)) {
    struct stat status {};
    const bool own = lstat(entry.path().c_str(), &status) == 0 && status.st_uid == geteuid();
    files += own && entry.path().filename().string().find("ccoll") != std::string::npos;
  }
  return files;
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
  const auto before = held_now();
  auto world = join(store, 0);
  expect(world.transport_to(1) == "shm", "ranks share memory");
  use(world);
  const auto in_use = held_now();
  expect(in_use.mappings > 1, "links are mapped");
  expect(in_use.shared_files <= before.shared_files,
         "no file has a name, for who is killed to leave behind");
  for (const pid_t child : children) kill(child, SIGKILL);
  const auto began = std::chrono::steady_clock::now();
  // 2 s, plus time for a busy machine.
  try {
    for (;;) world.barrier();
  } catch (const Error& error) {
    expect(error.kind() == ErrorKind::peer_lost, error.what());
  }
  expect(std::chrono::steady_clock::now() - began < 5s, "a killed rank is found out in time");
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 3) return be_killed(arguments[1], std::atoi(arguments[2]));
  const auto directory =
      std::filesystem::temp_directory_path() / ("ccoll_leftovers_" + std::to_string(getpid()));
  std::filesystem::create_directory(directory);
  // Keeps the service thread, which would otherwise end and begin again.
  auto alone = Communicator::create(make_inproc_store(), 0, 1);
  const auto named = named_files();
  Held first;
  for (int round = 0; round < 5; round++) {
    kill_all((directory / std::to_string(round)).string());
    if (round == 0) {
      first = held_at_rest();  // includes what a process keeps from its first job on
      continue;
    }
    static_cast<void>(eventually([&] { return held_now().no_more_than(first); }));
    const auto last = held_now();
    expect(last.no_more_than(first), "first " + first.text() + "; after more jobs " + last.text());
  }
  expect(first.mappings <= 2, "links stay mapped: " + first.text());
  expect(named_files() <= named, "files with ccoll's name stay in /dev/shm");
  std::filesystem::remove_all(directory);
  return 0;
}
