// SPDX-License-Identifier: Apache-2.0
// Start-up of a rank that is given too little memory: one allocation fails, the n-th of the thread
// that starts it. It gets a clear error and leaves nothing behind, and the ranks that it was to
// meet hear of it in time. (On the service thread Asio ends the process where it has no memory
// itself.)
//   scarce_start_test [--seconds S] [--seed N]    places drawn at random
//   scarce_start_test --sweep [--from N]          every allocation
// No Catch2: the rank that lacks memory is this program again, and is to have only its own threads.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/directory.hpp"
#include "support/held.hpp"
#include "support/ranks.hpp"
#include "support/verdict.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

// Of this thread:
thread_local long allocations = 0;
thread_local long failing = -1;  ///< the number of the one that fails, from 0
thread_local bool counted = false;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (counted && allocations++ == failing) throw std::bad_alloc();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

constexpr int kSize = 3;
constexpr int kVictim = 1;
/// The limit of start-up is 3 s, of the verdict thereafter 2 s; the rest is for a busy machine.
constexpr auto kSoon = 20s;

CommunicatorOptions impatient(const std::string& transport) {
  return testing::options_for(transport, 5s, 3s);
}

std::size_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

/// Until nothing more is held than `before`, and one thread is left; false after 5 s.
bool has_let_go(const Held& before) {
  const auto limit = Clock::now() + 5s;
  while (Clock::now() < limit) {
    if (held_now().no_more_than(before) && threads() == 1) return true;
    std::this_thread::sleep_for(2ms);
  }
  return false;
}

/// A descriptor and its mapping, for the bells of all ranks of a process.
constexpr Held kKept{1, 1, 0};

Held operator+(const Held& one, const Held& other) {
  return {one.descriptors + other.descriptors, one.mappings + other.mappings,
          one.shared_files + other.shared_files};
}

/// One rank's start-up and first call.
void start(const std::string& address, int rank, const std::string& transport) {
  const auto store = connect_tcp_store(address, {}, 3s);
  auto world = Communicator::create(store, rank, kSize, impatient(transport));
  counted = false;
  world.barrier();
}

/// What that was, as one line.
std::string outcome(const std::function<void()>& body) {
  try {
    body();
    return "fine";
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + ": " + error.what();
  } catch (const std::bad_alloc&) {
    return "bad_alloc";
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
}

/// The program as the rank that lacks memory.
int be_victim(char** arguments) {
  const std::string address = arguments[0], transport = arguments[1];
  const long number = std::atol(arguments[2]);
  // What a process makes once and keeps is there already; but every fourth time memory may run out
  // for that, too.
  const auto job = [] {
    auto ranks = Communicator::create_all(2);
    run_threads(2, [&](int rank) { ranks[static_cast<std::size_t>(rank)].barrier(); });
  };
  auto before = held_now();
  if (number % 4 != 0) {
    job();
    check(has_let_go(before + kKept), "a job before: it holds " + held_now().text());
    before = held_now();
  } else {
    before = before + kKept;
  }
  failing = number;
  counted = true;
  const auto got = outcome([&] { start(address, kVictim, transport); });
  counted = false;
  std::cout << allocations << " " << got << std::endl;
  check(got == "fine" || got == "bad_alloc" || got.starts_with("exhausted: "), got);
  check(has_let_go(before), "it holds " + held_now().text() + ", before " + before.text() + ", " +
                                std::to_string(threads()) + " threads, after " + got);
  check(outcome(job) == "fine", "a job afterwards: " + outcome(job));
  return failures;
}

/// Of one attempt.
struct Attempt {
  long allocations = 0;
  bool fine = false;
};

/// A job of which one rank lacks memory for that allocation; checks what all of them get.
Attempt attempt(const std::string& transport, long number) {
  const Directory directory;
  const auto said = directory.file("said");
  const auto server = serve_tcp_store();
  const auto began = Clock::now();
  pid_t victim = 0;
  std::vector<std::string> words = {"scarce_start_test", "--victim", server->address(), transport,
                                    std::to_string(number)};
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, said.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const bool spawned =
      ::posix_spawn(&victim, "/proc/self/exe", &actions, nullptr, arguments.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  std::array<Clock::duration, kSize> took{};
  auto errors = run_threads(kSize, [&](int rank) {
    if (rank == kVictim) return;
    const auto got = outcome([&] { start(server->address(), rank, transport); });
    took[static_cast<std::size_t>(rank)] = Clock::now() - began;
    if (got != "fine") throw std::runtime_error(got);
  });
  int status = 0;
  ::waitpid(victim, &status, 0);
  std::string line, rest;
  std::ifstream file(said);
  std::getline(file, line);
  for (std::string more; std::getline(file, more);) rest += "\n    " + more;
  static std::mutex judging;
  const std::lock_guard lock(judging);
  const auto where = transport + ", allocation " + std::to_string(number) + ": ";
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0,
        where + "the rank ends with " + std::to_string(status) + " after " + line + rest);
  check(spawned, "posix_spawn");
  const bool fine = line.ends_with(" fine");
  for (const int rank : {0, 2}) {
    const auto& error = errors[static_cast<std::size_t>(rank)];
    const auto text =
        where + "rank 1: " + line + "\n    rank " + std::to_string(rank) + ": " + error;
    check(took[static_cast<std::size_t>(rank)] < kSoon, text + "\n    comes too late");
    if (fine)
      check(error.empty(), text);
    else
      check(error.find("rank 1") != error.npos || error.find("ranks 1") != error.npos, text);
  }
  return {std::atol(line.c_str()), fine};
}

/// Most attempts wait for a limit: some at once. `next` gives numbers, until it gives none.
void attempt_all(const std::string& transport, const std::function<std::optional<long>()>& next,
                 const std::function<void(long, const Attempt&)>& made) {
  constexpr int kAtOnce = 8;
  std::mutex mutex;
  run_threads(kAtOnce, [&](int) {
    for (;;) {
      std::unique_lock lock(mutex);
      const auto number = next();
      lock.unlock();
      if (!number) return;
      const auto got = attempt(transport, *number);
      lock.lock();
      made(*number, got);
    }
  });
}

void sweep(const std::string& transport, long from) {
  long number = from - 1, most = LONG_MAX;
  const auto next = [&] { return number < most ? std::optional(++number) : std::nullopt; };
  attempt_all(transport, next, [&](long tried, const Attempt& got) {
    if (got.fine && got.allocations <= tried) most = std::min(most, tried);
  });
  std::cout << transport << ": " << number - from << " attempts" << std::endl;
}

void draw(const std::string& transport, std::chrono::seconds time, std::mt19937& random) {
  const auto end = Clock::now() + time;
  const auto most = attempt(transport, 1'000'000'000).allocations;
  int count = 0;
  const auto next = [&]() -> std::optional<long> {
    if (Clock::now() > end) return std::nullopt;
    count++;
    return std::uniform_int_distribution<long>(0, most)(random);
  };
  attempt_all(transport, next, [](long, const Attempt&) {});
  std::cout << transport << ": " << count << " of " << most << " allocations" << std::endl;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string_view> words(arguments + 1, arguments + count);
  if (!words.empty() && words[0] == "--victim") return be_victim(arguments + 2);
  const auto given = [&](std::string_view name, long otherwise) {
    const auto found = std::ranges::find(words, name);
    return found == words.end() ? otherwise : std::atol((found + 1)->data());
  };
  const auto seed = static_cast<unsigned>(given("--seed", std::random_device{}() & 0xffffff));
  const bool sweeps = std::ranges::find(words, "--sweep") != words.end();
  if (!sweeps) std::cout << "seed " << seed << std::endl;
  std::mt19937 random(seed);
  for (const auto* const transport : {"shm", "tcp"}) {
    if (sweeps) {
      sweep(transport, given("--from", 0));
      continue;
    }
    draw(transport, std::chrono::seconds(given("--seconds", 10)), random);
  }
  return failures == 0 ? 0 : 1;
}
