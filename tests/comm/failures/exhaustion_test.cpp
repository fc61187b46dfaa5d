// SPDX-License-Identifier: Apache-2.0
// Jobs whose process runs out of descriptors, memory or room for files, or that signals interrupt
// all the time. A failed operation soon gives an error on all ranks, and nothing leaks; when the
// shortage ends, everything works again. exhaustion_test WHAT: each case has its own process, since
// limits and signals are per process. No Catch2: it handles signals of its own.
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/directory.hpp"
#include "support/ranks.hpp"
#include "support/verdict.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kSize = 3;

CommunicatorOptions impatient(const char* transport) {
  return testing::options_for(transport, 5s, 1s);
}

/// A whole job, with calls that open links of every kind; returns what each rank threw.
std::vector<std::string> job(const char* transport) {
  const auto server = serve_tcp_store();
  return run_threads(kSize, [&](int rank) {
    const auto store = connect_tcp_store(server->address(), {}, 1s);
    auto world = Communicator::create(store, rank, kSize, impatient(transport));
    for (const std::size_t count : {1, 100'000}) {
      std::vector<std::int32_t> values(count, 1);
      world.all_reduce(values);
      testing::expect(std::ranges::all_of(values, [](int v) { return v == kSize; }), "a wrong sum");
      std::vector<std::int32_t> got(count, 0);
      world.send_recv(std::span<const std::int32_t>(values), (rank + 1) % kSize, std::span(got),
                      (rank + kSize - 1) % kSize);
      testing::expect(got == values, "a wrong message");
    }
    auto half = world.split(0, 0);
    half->barrier();
  });
}

std::string text_of(const std::vector<std::string>& errors) {
  std::string text;
  for (const auto& error : errors) text += "\n  " + (error.empty() ? "fine" : error);
  return text;
}

bool fine(const std::vector<std::string>& errors) {
  return std::ranges::all_of(errors, [](const std::string& error) { return error.empty(); });
}

/// The result of `attempt`; an exception on the caller's thread counts as one rank's.
template <typename Attempt>
std::vector<std::string> outcome_of(Attempt attempt) {
  try {
    return attempt();
  } catch (const std::exception& error) {
    return {error.what()};
  }
}

/// The number that the next descriptor gets.
rlim_t next_descriptor() {
  const int next = ::dup(STDERR_FILENO);
  ::close(next);
  return static_cast<rlim_t>(next);
}

/// Leaves a job each number of descriptors from none to enough. A rank that gets none says so or is
/// reported by the others; nobody waits beyond the limits.
void descriptors(const char* transport) {
  if (const auto errors = job(transport); !fine(errors))
    check(false, "a job with all descriptors fails before the others:" + text_of(errors));
  rlimit all{};
  ::getrlimit(RLIMIT_NOFILE, &all);
  int failed = 0;
  for (rlim_t left = 0; left < 200; left += 7) {
    rlimit few = all;
    few.rlim_cur = next_descriptor() + left;
    ::setrlimit(RLIMIT_NOFILE, &few);
    const auto start = Clock::now();
    const auto errors = outcome_of([&] { return job(transport); });
    const auto took = Clock::now() - start;
    ::setrlimit(RLIMIT_NOFILE, &all);
    const auto what = std::string(transport) + ", " + std::to_string(left) + " descriptors left:";
    check(took < 15s, what + " it takes too long" + text_of(errors));
    check(text_of(errors).find("a wrong") == std::string::npos, what + text_of(errors));
    if (fine(errors)) break;
    failed++;
  }
  check(failed > 2, "descriptors never ran out");
  if (const auto errors = job(transport); !fine(errors))
    check(false, "a job with all descriptors fails after the others:" + text_of(errors));
}

std::atomic<std::uint64_t> signals{0};

/// A timer's signals, 1,000 per second, interrupt system calls.
void interruptions(const char* transport) {
  struct sigaction action {};
  action.sa_handler = [](int) { signals.fetch_add(1, std::memory_order_relaxed); };
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 1000}, {0, 1000}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  const auto end = Clock::now() + 3s;
  while (Clock::now() < end && failures == 0) {
    const auto errors = outcome_of([&] { return job(transport); });
    check(fine(errors), std::string(transport) + " beside signals:" + text_of(errors));
  }
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  check(signals > 500, "there were only " + std::to_string(signals) + " signals");
}

/// No file may grow: traces and dumps are abandoned with a warning, and calls continue.
void files(const char* transport) {
  const Directory directory;
  ::setenv("CCOLL_TRACE", directory.path().c_str(), 1);
  ::setenv("CCOLL_DUMP", directory.path().c_str(), 1);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit all = limit;
  for (const rlim_t bytes : {0, 1, 100, 5000}) {
    // The process's SIGXFSZ would kill it unless it is blocked.
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto good = outcome_of([&] { return job(transport); });
    const auto store = make_inproc_store();
    const auto bad = run_threads(2, [&](int rank) {
      auto world = Communicator::create(store, rank, 2, impatient(transport));
      std::vector<std::int32_t> values(10, 1);
      if (rank == 0)
        world.all_reduce(values);
      else
        world.broadcast(values, 0);
    });
    ::setrlimit(RLIMIT_FSIZE, &all);
    const auto what = std::string(transport) + ", files of " + std::to_string(bytes) + " bytes:";
    // A job that asks for shared memory by name fails without it, and says so.
    const auto lacks_memory = [](const std::string& error) {
      return error.find("shared memory: ftruncate: File too large") != error.npos;
    };
    if (transport == std::string_view("shm")) {
      check(std::ranges::all_of(good, lacks_memory) && std::ranges::all_of(bad, lacks_memory),
            what + text_of(good) + text_of(bad));
      continue;
    }
    check(fine(good), what + text_of(good));
    for (const auto& error : bad)
      check(error.find("all_reduce") != error.npos && error.find("broadcast") != error.npos,
            what + " another error than the mismatch:" + text_of(bad));
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      const auto name = entry.path().string();
      check(entry.file_size() <= bytes && !name.ends_with(".part"), what + " stays: " + name);
      std::filesystem::remove(entry.path());
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view what = count > 1 ? arguments[1] : "";
  for (const auto* transport : {"inproc", "shm", "tcp"}) {
    if (what == "descriptors") descriptors(transport);
    if (what == "signals") interruptions(transport);
    if (what == "files") files(transport);
  }
  return failures == 0 ? 0 : 1;
}
