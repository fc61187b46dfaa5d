// SPDX-License-Identifier: Apache-2.0
// Children that a process with communicators forks: they end at once, whatever of the parent's they
// destroy, and the parent goes on as if they had never been. No Catch2 here: the children are to
// run every exit handler, and only those of a user's program.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ccoll/ccoll.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kSize = 3;
constexpr auto kSoon = 5s;
constexpr std::size_t kLongBytes = 1 << 20;
int failures = 0;

void expect(bool condition, const std::string& what) {
  if (condition) return;
  std::cout << "failed: " << what << std::endl;
  failures++;
}

CommunicatorOptions options_for(const char* transport) {
  CommunicatorOptions options;
  options.transport = transport;
  options.timeout = 10s;
  options.start_timeout = 10s;
  return options;
}

/// The ranks of a job, threads of this process, that meet where rank 0 serves the store.
std::vector<Communicator> meet_at(const std::string& address, const char* transport) {
  std::vector<std::optional<Communicator>> made(kSize);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kSize; rank++)
      threads.emplace_back([&, rank] {
        Environment environment;
        environment.rank = rank;
        environment.size = kSize;
        environment.store = "tcp://" + address;
        environment.rank0_serves_store = true;
        made[static_cast<std::size_t>(rank)] =
            Communicator::create(environment, options_for(transport));
      });
  }
  std::vector<Communicator> ranks;
  for (auto& each : made) ranks.push_back(std::move(each.value()));
  return ranks;
}

void sum_up(std::vector<Communicator>& ranks, const std::string& what) {
  std::vector<std::int32_t> values(ranks.size(), 1);
  {
    CallGroup group;
    for (std::size_t i = 0; i < ranks.size(); i++) ranks[i].all_reduce(std::span(&values[i], 1));
  }
  for (const auto value : values) expect(value == kSize, what);
}

/// A child that runs `body` and then exit(): its end is to come soon, and well.
void fork_child(const std::string& what, const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    std::exit(failures);
  }
  const auto limit = Clock::now() + kSoon;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > limit) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return expect(false, what + ": the child does not end");
    }
    std::this_thread::sleep_for(5ms);
  }
  expect(status == 0, what + ": the child's status is " + std::to_string(status));
}

void children(const std::string& address, const char* transport) {
  const auto in = [&](const std::string& what) { return what + " by " + transport; };
  auto ranks = meet_at(address, transport);
  auto store = connect_tcp_store(address);
  const auto id = UniqueId::create();
  sum_up(ranks, in("before"));
  fork_child(in("a child that does nothing"), [] {});
  fork_child(in("a child that destroys all"), [&] {
    ranks.clear();
    store.reset();
  });
  fork_child(in("a child with ranks of its own"), [&] {
    ranks.clear();
    ranks = Communicator::create_all(kSize, options_for(transport));
    sum_up(ranks, in("in a child"));
  });
  // Its own buffers lie where its parent's registered memory was, and are not taken for that.
  auto memory = allocate(kLongBytes);
  fork_child(in("a child whose parent has registered memory"), [&] {
    ranks.clear();
    void* const place = memory.data();
    memory.reset();
    ranks = Communicator::create_all(kSize, options_for(transport));
    void* const mapped = mmap(place, kLongBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    expect(mapped == place, in("the place is free"));
    const auto values = std::span(static_cast<std::int32_t*>(place), kLongBytes / 4);
    for (int round = 0; round < 20; round++) {
      std::ranges::fill(values, round);
      std::vector<std::int32_t> got(values.size(), -1);
      {
        CallGroup group;
        ranks[0].send(values, 1);
        ranks[1].recv(got, 0);
      }
      expect(got == std::vector<std::int32_t>(values.size(), round), in("what a child sends"));
    }
  });
  fork_child(in("a child that registers memory"), [&] {
    ranks.clear();
    const auto own = allocate(kLongBytes);
    ranks = Communicator::create_all(kSize, options_for(transport));
    sum_up(ranks, in("beside memory of a child"));
  });
  sum_up(ranks, in("afterwards"));
  expect(store->add("a number", 1) > 0, in("the store afterwards"));
  const auto alone = Communicator::create(id, 0, 1, options_for(transport));
  ranks = meet_at(address, transport);
  sum_up(ranks, in("ranks that meet afterwards"));
}

}  // namespace

int main() {
  const std::string address = serve_tcp_store()->address();  // a free one
  for (const auto* transport : {"inproc", "shm", "tcp"}) children(address, transport);
  return failures;
}
