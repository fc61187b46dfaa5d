// SPDX-License-Identifier: Apache-2.0
// Start-up of a rank with too little memory: the n-th allocation of its starting thread, or of its
// service thread, fails; or its address space is limited. It gets a clear error and leaks nothing,
// and the ranks it was to meet hear of it in time. (Asio ends the process if it has no memory to
// start a coroutine.)
//   scarce_start_test [--seconds S] [--seed N]    places drawn at random
//   scarce_start_test --sweep [--from N]          every allocation of one thread
//   scarce_start_test --service [--from N]        and of the other
//   scarce_start_test --calls [--from N]          the same, also in calls
//   scarce_start_test --limit [--from KIB]        every limit, in steps of 512 KiB
// No Catch2: the rank without memory is this program again, and should only have its own threads.
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <exception>
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
#include "support/eventually.hpp"
#include "support/held.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"
#include "support/verdict.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

std::atomic<long> allocations = 0;
std::atomic<long> failing = -1;  ///< the index of the allocation that fails, from 0
// The threads whose allocations count:
thread_local bool counted = false;  ///< this thread's do
std::atomic<bool> of_service = false;

bool is_counted() {
  if (counted || !of_service) return counted;
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return std::string_view(name.data()) == "ccoll-service";
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (is_counted() && allocations++ == failing) throw std::bad_alloc();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

constexpr int kSize = 3;
constexpr int kVictim = 1;

/// The memory that the rank lacks: of its starting thread; of its service thread, in start-up alone
/// or in calls, too; or all memory. For the last the number is how many KiB of address space are
/// left.
enum class Lack { own, service, calls, limit };
constexpr std::array kLacks = {"own", "service", "calls", "limit"};

/// The exit status if Asio itself runs out of memory.
constexpr int kEndedByAsio = 77;
/// Start-up has a limit of 3 s and the verdict 2 s; the rest is for a busy machine.
constexpr auto kSoon = 20s;

CommunicatorOptions impatient(const std::string& transport) {
  return testing::options_for(transport, 5s, 3s);
}

std::size_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

/// Waits until no more is held than `before` and one thread is left; false after 5 s.
bool has_let_go(const Held& before) {
  return eventually([&] { return held_now().no_more_than(before) && threads() == 1; }, 5s);
}

/// A descriptor and its mapping, for the doorbells of all ranks of a process.
constexpr Held kKept{1, 1, 0};

Held operator+(const Held& one, const Held& other) {
  return {one.descriptors + other.descriptors, one.mappings + other.mappings,
          one.shared_files + other.shared_files};
}

/// One rank's start-up and first call.
void start(const std::string& address, int rank, const std::string& transport) {
  const auto store = connect_tcp_store(address, {}, 3s);
  auto world = Communicator::create(store, rank, kSize, impatient(transport));
  counted = of_service = false;
  world.barrier();
}

/// The same, plus calls that involve the service thread.
void start_and_call(const std::string& address, int rank, const std::string& transport) {
  const auto store = connect_tcp_store(address, {}, 3s);
  auto world = Communicator::create(store, rank, kSize, impatient(transport));
  std::vector<float> data(1 << 16, 1), got(data.size());
  world.all_reduce(std::span(data));
  auto other = world.duplicate();
  other.all_reduce_async(std::span(data)).wait();
  auto receive = world.recv_async(std::span(got), (rank + kSize - 1) % kSize);
  world.send(std::span<const float>(data), (rank + 1) % kSize);
  receive.wait();
  // Long enough for waiting ranks to publish to the others in which call they wait.
  if (rank == 0) be_late(150ms);
  world.barrier();
}

auto body_of(Lack lack) {
  return lack == Lack::own || lack == Lack::service ? start : start_and_call;
}

/// Leaves `more` bytes of address space, or removes the limit.
void limit_addresses(std::optional<std::size_t> more) {
  std::ifstream sizes("/proc/self/statm");
  std::size_t pages = 0;
  sizes >> pages;
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur =
      more ? pages * static_cast<std::size_t>(::getpagesize()) + *more : limit.rlim_max;
  ::setrlimit(RLIMIT_AS, &limit);
}

/// Describes the outcome in one line, without allocating.
template <typename Body>
std::string outcome(const Body& body) {
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

bool names_victim(const std::string& error) {
  return error.find("rank 1") != error.npos || error.find("ranks 1") != error.npos;
}

/// The program as the rank that lacks memory.
int be_victim(char** arguments) {
  const std::string address = arguments[0], transport = arguments[1];
  const long number = std::atol(arguments[2]);
  const auto lack =
      static_cast<Lack>(std::ranges::find(kLacks, std::string_view(arguments[3])) - kLacks.begin());
  if (lack != Lack::own) std::set_terminate([] { ::_exit(kEndedByAsio); });
  // The process's permanent objects exist already; but in every fourth attempt memory may run out
  // for those, too.
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
  allocations = 0;
  if (lack != Lack::limit) failing = number;
  if (lack == Lack::limit) limit_addresses(static_cast<std::size_t>(number) << 10);
  of_service = lack == Lack::service || lack == Lack::calls;
  counted = lack == Lack::own;
  const auto body = body_of(lack);
  const auto got = outcome([&] { body(address, kVictim, transport); });
  counted = of_service = false;
  limit_addresses(std::nullopt);
  std::cout << allocations << " " << got << std::endl;
  // If it could not make a link, the other end may report that first.
  const bool by_other = lack != Lack::own && names_victim(got);
  check(got == "fine" || got == "bad_alloc" || got.starts_with("exhausted: ") || by_other, got);
  check(has_let_go(before), "it holds " + held_now().text() + ", before " + before.text() + ", " +
                                std::to_string(threads()) + " threads, after " + got);
  check(outcome(job) == "fine", "a job afterwards: " + outcome(job));
  return failures;
}

/// The result of one attempt.
struct Attempt {
  long allocations = 0;
  bool fine = false;
  bool by_asio = false;
};

/// Runs a job in which one rank runs out of memory there, and checks every rank's result.
Attempt attempt(const std::string& transport, Lack lack, long number) {
  const Directory directory;
  const auto said = directory.file("said");
  const auto server = serve_tcp_store();
  const auto began = Clock::now();
  pid_t victim = 0;
  std::vector<std::string> words = {"scarce_start_test",    "--victim",
                                    server->address(),      transport,
                                    std::to_string(number), kLacks[static_cast<std::size_t>(lack)]};
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
    const auto body = body_of(lack);
    const auto got = outcome([&] { body(server->address(), rank, transport); });
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
  const auto where = transport + ", " + kLacks[static_cast<std::size_t>(lack)] + " " +
                     std::to_string(number) + ": ";
  const bool by_asio =
      lack != Lack::own && WIFEXITED(status) && WEXITSTATUS(status) == kEndedByAsio;
  check(by_asio || (WIFEXITED(status) && WEXITSTATUS(status) == 0),
        where + "the rank ends with " + std::to_string(status) + " after " + line + rest);
  check(spawned, "posix_spawn");
  const bool fine = line.ends_with(" fine");
  for (const int rank : {0, 2}) {
    const auto& error = errors[static_cast<std::size_t>(rank)];
    const auto text =
        where + "rank 1: " + line + "\n    rank " + std::to_string(rank) + ": " + error;
    check(took[static_cast<std::size_t>(rank)] < kSoon, text + "\n    comes too late");
    // A rank that comes after the first two have given up finds nobody.
    const bool named = names_victim(error) || error.find("no rank 0 at") != error.npos;
    // In the last call one side may have finished when the other fails.
    const bool either = lack != Lack::own;
    check((named && (either || !fine)) || (error.empty() && (either || fine)), text);
  }
  return {std::atol(line.c_str()), fine, by_asio};
}

/// Most attempts wait for a time limit, so several run at once. `next` yields their numbers.
void attempt_all(const std::string& transport, Lack lack,
                 const std::function<std::optional<long>()>& next,
                 const std::function<void(long, const Attempt&)>& made) {
  constexpr int kAtOnce = 8;
  std::mutex mutex;
  run_threads(kAtOnce, [&](int) {
    for (;;) {
      std::unique_lock lock(mutex);
      const auto number = next();
      lock.unlock();
      if (!number) return;
      const auto got = attempt(transport, lack, *number);
      lock.lock();
      made(*number, got);
    }
  });
}

void sweep(const std::string& transport, Lack lack, long from) {
  constexpr long kMostKib = 128 << 10;
  const long step = lack == Lack::limit ? 512 : 1;
  long number = from - step, most = lack == Lack::limit ? kMostKib : LONG_MAX, by_asio = 0;
  const auto next = [&] { return number < most ? std::optional(number += step) : std::nullopt; };
  attempt_all(transport, lack, next, [&](long tried, const Attempt& got) {
    if (got.fine && got.allocations <= tried && lack != Lack::limit) most = std::min(most, tried);
    by_asio += got.by_asio;
  });
  std::cout << transport << ": " << (number - from) / step << " attempts, " << by_asio
            << " ended by Asio" << std::endl;
}

void draw(const std::string& transport, Lack lack, std::chrono::seconds time,
          std::mt19937& random) {
  const auto end = Clock::now() + time;
  const auto most = attempt(transport, lack, 1'000'000'000).allocations;
  int count = 0, by_asio = 0;
  const auto next = [&]() -> std::optional<long> {
    if (Clock::now() > end) return std::nullopt;
    count++;
    return std::uniform_int_distribution<long>(0, most)(random);
  };
  attempt_all(transport, lack, next,
              [&](long, const Attempt& got) { by_asio += got.by_asio ? 1 : 0; });
  std::cout << transport << ": " << count << " of " << most << " allocations, " << by_asio
            << " ended by Asio" << std::endl;
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
  const auto asks = [&](std::string_view name) {
    return std::ranges::find(words, name) != words.end();
  };
  const bool sweeps = asks("--sweep") || asks("--service") || asks("--calls") || asks("--limit");
  if (!sweeps) std::cout << "seed " << seed << std::endl;
  std::mt19937 random(seed);
  for (const auto* const transport : {"shm", "tcp"}) {
    const auto from = given("--from", 0);
    if (asks("--sweep")) sweep(transport, Lack::own, from);
    if (asks("--service")) sweep(transport, Lack::service, from);
    if (asks("--calls")) sweep(transport, Lack::calls, from);
    if (asks("--limit")) sweep(transport, Lack::limit, from);
    if (sweeps) continue;
    const std::chrono::seconds time(given("--seconds", 6));
    draw(transport, Lack::own, time, random);
    draw(transport, Lack::service, time / 2, random);
  }
  return failures == 0 ? 0 : 1;
}
