// SPDX-License-Identifier: Apache-2.0
// Processes that end without closing their communicator, in every way a process can end. Data that
// they sent before is used, and only a call that needs more from them fails. No Catch2: the
// children run every exit handler, and only those of a user's program.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/children.hpp"
#include "support/eventually.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::check;
using testing::failures;
using Clock = std::chrono::steady_clock;

namespace {

/// An error is promised after 2 s; the rest is for a busy machine.
constexpr auto kBound = 6s;

/// The ways a process can end; `says_goodbye` if its exit handlers run.
struct End {
  std::string_view name;
  bool says_goodbye;
  void (*end)();
};
const End kEnds[] = {{"exit", true, [] { std::exit(0); }},
                     {"quick_exit", true, [] { std::quick_exit(0); }},
                     {"_exit", false, [] { _exit(0); }}};

struct Job {
  std::string transport;
  int size;
  std::string what;
};

/// A job of processes that each run `body` with a communicator and never close it.
void run(const Job& job, const std::function<void(Communicator&)>& body) {
  static int jobs = 0;
  const auto store = std::filesystem::temp_directory_path() /
                     ("ccoll_unclosed_" + std::to_string(getpid()) + "_" + std::to_string(jobs++));
  std::vector<pid_t> children;
  for (int rank = 0; rank < job.size; rank++) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    failures = 0;
    CommunicatorOptions options;
    options.transport = job.transport;
    options.timeout = 60s;
    try {
      auto* const world = new Communicator(
          Communicator::create(make_file_store(store.string()), rank, job.size, options));
      body(*world);
      std::exit(failures);
    } catch (const std::exception& error) {
      std::cout << "rank " + std::to_string(rank) + ": " + error.what() << std::endl;
      _exit(1);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    const bool was_to_be_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    check(status == 0 || was_to_be_killed, job.what + " of " + std::to_string(job.size) + " by " +
                                               job.transport + ": a status is " +
                                               std::to_string(status));
  }
  std::filesystem::remove(store);
}

void contribute(Communicator& world) {
  std::vector<float> gradients(1000, 1.F);
  world.all_reduce(std::span(gradients));
  check(gradients[999] == static_cast<float>(world.size()), "the sum");
}

/// Checks that `call` fails in time because of rank `lost`.
void fails(const std::function<void()>& call, int lost, const std::string& what) {
  const auto begun = Clock::now();
  std::string error = "no error";
  try {
    call();
  } catch (const Error& caught) {
    error = std::string(to_string(caught.kind())) + ": " + caught.what();
  }
  check(
      error.starts_with("peer_lost: ") && error.find("rank " + std::to_string(lost)) != error.npos,
      what + ": " + error);
  check(Clock::now() - begun < kBound, what + ": it comes late");
}

/// A rank that has contributed to the last barrier ends while others are still in it.
void all_end(const End& end, const std::string& transport, int size, int jobs) {
  for (int job = 0; job < jobs; job++)
    run({transport, size, "all end by " + std::string(end.name)}, [&](Communicator& world) {
      contribute(world);
      world.barrier();
      end.end();
    });
}

/// The root comes late for data that another rank sent before it ended, in several calls.
void sent_before(const End& end, const std::string& transport) {
  run({transport, 3, "sent before " + std::string(end.name)}, [&](Communicator& world) {
    contribute(world);
    int mine = world.rank() + 1;
    std::vector<int> all(3);
    const auto give = [&] {
      world.gather(std::span<const int>(&mine, 1), std::span(all), 0);
      check(world.rank() != 0 || all == std::vector{1, 2, 3}, "what was gathered");
    };
    if (world.rank() == 0) testing::be_late(300ms);
    give();
    give();
    if (world.rank() == 1) world.send(std::span<const int>(std::vector<int>(100, 7)), 0, 5);
    if (world.rank() != 0) end.end();
    std::vector<int> message(100);
    world.recv(std::span(message), 1, 5);
    check(message == std::vector<int>(100, 7), "the message");
    fails([&] { world.recv(std::span(message), 1, 6); }, 1, "a receive of what was never sent");
  });
}

/// One rank is killed at once. Each other rank's call fails, even if it waits only for live ranks,
/// or comes too late to need the dead one.
void killed(const std::string& transport) {
  run({transport, 4, "killed"}, [](Communicator& world) {
    contribute(world);
    world.barrier();
    if (world.rank() == 3) raise(SIGKILL);
    std::vector<int> ring(4);
    CallOptions options;
    options.algorithm = "ring";
    fails([&] { world.all_reduce(std::span(ring), ReduceOp::sum, options); }, 3, "in a ring");
    fails([&] { world.barrier(); }, 3, "the next call");
  });
  const testing::SharedCount told;
  run({transport, 4, "killed, and others are late"}, [&](Communicator& world) {
    contribute(world);
    world.barrier();
    if (world.rank() == 3) raise(SIGKILL);
    if (world.rank() != 0)
      check(testing::eventually([&] { return *told == 1; }), "rank 0 waits for late ranks");
    std::vector<int> values(4);
    CallOptions options;
    options.algorithm = "ring";
    fails([&] { world.all_reduce(std::span(values), ReduceOp::sum, options); }, 3, "it waits");
    if (world.rank() == 0) *told = 1;
  });
}

/// Children of this test's processes that outlive them, until this is destroyed.
class Outliving {
 public:
  Outliving() {
    if (pipe(ends_) != 0) std::abort();
  }
  ~Outliving() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Outliving(const Outliving&) = delete;
  Outliving& operator=(const Outliving&) = delete;
  /// Returns once the child runs and so holds its parent's sockets.
  void fork_one() const {
    int runs[2];
    char byte = 0;
    if (pipe(runs) != 0) std::abort();
    if (fork() == 0) {
      close(ends_[1]);
      (void)!write(runs[1], &byte, 1);
      (void)!read(ends_[0], &byte, 1);
      _exit(0);
    }
    (void)!read(runs[0], &byte, 1);
    close(runs[0]);
    close(runs[1]);
  }

 private:
  int ends_[2] = {};
};

/// A child that a rank has forked must not make the rank seem alive.
void killed_with_child(const std::string& transport) {
  const Outliving children;
  run({transport, 3, "killed, and its child lives"}, [&](Communicator& world) {
    contribute(world);
    if (world.rank() == 1) children.fork_one();
    world.barrier();
    if (world.rank() == 1) raise(SIGKILL);
    std::vector<float> more(100'000);
    fails([&] { world.all_reduce(std::span(more)); }, 1, "beside a child that lives");
    auto rest = world.shrink();
    check(rest.size() == 2, "all but one are left");
    // A rank must not leave before the other knows that they agreed.
    rest.barrier();
  });
}

/// Nor may a child hold the port of a store.
void restarted_with_child() {
  const Outliving children;
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t first = fork();
  if (first == 0) {
    const auto server = serve_tcp_store("127.0.0.1:0");
    children.fork_one();
    const auto address = server->address();
    (void)!write(ends[1], address.data(), address.size());
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(first, &status, 0);
  std::string address(64, '\0');
  address.resize(static_cast<std::size_t>(std::max<ssize_t>(read(ends[0], address.data(), 64), 0)));
  close(ends[0]);
  close(ends[1]);
  testing::fork_child("a store that is served again", [&] {
    try {
      serve_tcp_store(address);
    } catch (const Error& error) {
      check(false, error.what());
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string transport = argc > 1 ? argv[1] : "shm";
  for (const End& end : kEnds) {
    all_end(end, transport, 4, 20);
    all_end(end, transport, 8, 6);
    sent_before(end, transport);
  }
  all_end(kEnds[0], transport, 64, 1);
  killed(transport);
  killed_with_child(transport);
  restarted_with_child();
  return failures;
}
