// SPDX-License-Identifier: Apache-2.0
// Children forked by a process with communicators: they end at once, whichever of the parent's
// objects they destroy, and the parent is unaffected. No Catch2: the children run every exit
// handler, and only those of a user's program.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "comm/record/dump/dump.hpp"
#include "dumps/read.hpp"
#include "net/service.hpp"
#include "support/asleep.hpp"
#include "support/children.hpp"
#include "support/directory.hpp"
#include "support/eventually.hpp"
#include "support/kept_port.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::check;
using testing::failures;
using testing::fork_child;

namespace {

constexpr int kSize = 3;
constexpr std::size_t kLongBytes = 1 << 20;

CommunicatorOptions options_for(const char* transport) {
  return testing::options_for(transport, 10s, 10s);
}

/// The ranks of a job, as threads of this process; rank 0 serves the store.
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
    group.end();
  }
  for (const auto value : values) check(value == kSize, what);
}

/// Children do not need the service's locks, which a thread that they lack may hold at the fork.
/// The rank has a call under way that its service would continue.
void locked_amid(Communicator& rank, const char* transport) {
  const auto what = std::string("a child of one whose service is busy by ") + transport;
  std::jthread busy([](const std::stop_token& stop) {
    const auto service = net::Service::shared();
    while (!stop.stop_requested()) {
      for (int i = 0; i < 1000; i++) asio::post(service->context(), [] {});
      service->catch_up();
    }
  });
  for (int i = 0; i < 100; i++)
    fork_child(what, [&] {
      try {
        rank.barrier();
        check(false, what + ": a barrier is taken");
      } catch (const Error& error) {
        check(error.kind() == ErrorKind::aborted, what + ": " + error.what());
      }
    });
}

/// Calls that other threads have begun before a fork continue in the parent, and end at once in the
/// child.
void under_way(std::vector<Communicator>& ranks, const char* transport) {
  const auto in = [&](const std::string& what) { return what + " by " + transport; };
  std::vector<std::int32_t> values(kLongBytes / 4, 1), sum(values.size());
  std::vector<Work> works;
  for (std::size_t i = 1; i < ranks.size(); i++)
    works.push_back(ranks[i].all_reduce_async(values, i == 1 ? sum : values));
  testing::Sleeper receiver;
  std::jthread blocked([&] {
    std::int32_t got = 0;
    receiver.is_this_thread();
    ranks[0].recv(std::span(&got, 1), 1, 7);
    check(got == 1, in("a message that is awaited while a child is forked"));
  });
  check(receiver.sleeps(), in("a receiver does not wait"));
  fork_child(in("a child of one that waits"), [&] {
    for (auto& work : works) {
      try {
        work.wait();
        check(false, in("what its parent began ends well in a child"));
      } catch (const Error& error) {
        check(error.kind() == ErrorKind::aborted, in(std::string("in a child: ") + error.what()));
      }
    }
    try {
      ranks[0].barrier();
      check(false, in("a barrier is taken in a child"));
    } catch (const Error& error) {
      check(error.kind() == ErrorKind::aborted, in(std::string("in a child: ") + error.what()));
    }
  });
  if (testing::kChildrenHaveMemory) locked_amid(ranks[0], transport);
  const std::int32_t one = 1;
  ranks[1].send(std::span(&one, 1), 0, 7);
  blocked.join();
  std::vector<std::int32_t> other(values);
  ranks[0].all_reduce(other);
  for (auto& work : works) work.wait();
  check(sum == std::vector<std::int32_t>(sum.size(), kSize), in("what was under way"));
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
  fork_child(in("a child that uses what its parent has made"), [&] {
    const auto aborted = [&](const std::string& what, const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        const std::string text = error.what();
        return check(error.kind() == ErrorKind::aborted &&
                         text.find("is a forked child of the one that made") != text.npos,
                     in(what + " in a child: " + text));
      }
      check(false, in(what + " in a child is taken"));
    };
    std::int32_t value = 1;
    const auto values = std::span(&value, 1);
    for (int round = 0; round < 2; round++) {
      aborted("a collective", [&] { ranks[0].all_reduce(values); });
      aborted("a message", [&] { ranks[0].send(std::span<const std::int32_t>(values), 1); });
      aborted("a receive", [&] { ranks[1].recv(values, 0); });
      aborted("a split", [&] { ranks[2].split(0, 0); });
      aborted("shrink", [&] { ranks[2].shrink(); });
    }
    for (auto& rank : ranks) rank.close();
  });
  under_way(ranks, transport);
  fork_child(in("a child with ranks of its own"), [&] {
    ranks.clear();
    ranks = Communicator::create_all(kSize, options_for(transport));
    sum_up(ranks, in("in a child"));
  });
  // The child's own buffers lie where its parent's registered memory was; they must not pass for
  // it.
  auto memory = allocate(kLongBytes);
  fork_child(in("a child whose parent has registered memory"), [&] {
    ranks.clear();
    void* const place = memory.data();
    memory.reset();
    // It must be mapped at once, before anything else takes the address.
    void* const mapped = mmap(place, kLongBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != place) return check(false, in("the place is free"));
    ranks = Communicator::create_all(kSize, options_for(transport));
    const auto values = std::span(static_cast<std::int32_t*>(place), kLongBytes / 4);
    for (int round = 0; round < 20; round++) {
      std::ranges::fill(values, round);
      std::vector<std::int32_t> got(values.size(), -1);
      {
        CallGroup group;
        ranks[0].send(values, 1);
        ranks[1].recv(got, 0);
        group.end();
      }
      check(got == std::vector<std::int32_t>(values.size(), round), in("what a child sends"));
    }
  });
  fork_child(in("a child that registers memory"), [&] {
    ranks.clear();
    const auto own = allocate(kLongBytes);
    ranks = Communicator::create_all(kSize, options_for(transport));
    sum_up(ranks, in("beside memory of a child"));
  });
  sum_up(ranks, in("afterwards"));
  check(store->add("a number", 1) > 0, in("the store afterwards"));
  const auto alone = Communicator::create(id, 0, 1, options_for(transport));
  ranks = meet_at(address, transport);
  sum_up(ranks, in("ranks that meet afterwards"));
}

/// The processes that wrote the dumps in the directory; unfinished dumps do not count.
std::vector<std::uint64_t> writers(const testing::Directory& directory) {
  std::vector<std::uint64_t> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    if (!entry.path().string().ends_with(dump::kExtension)) continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (const auto dump = dump::parse(text)) found.push_back(dump->process);
  }
  return found;
}

/// Once there are dumps of that many ranks, all must be this process's.
void check_written(const testing::Directory& directory, std::size_t ranks,
                   const std::string& what) {
  std::vector<std::uint64_t> found;
  const auto are_there = [&] { return (found = writers(directory)).size() >= ranks; };
  static_cast<void>(testing::eventually(are_there, testing::kSoon / 2));
  check(std::ranges::count(found, static_cast<std::uint64_t>(getpid())) ==
            static_cast<std::ptrdiff_t>(ranks),
        what);
}

/// A signal for dumps concerns one process, not its parent or child, and a child overwrites no dump
/// of its parent.
void signals() {
  const testing::Directory directory;
  setenv("CCOLL_DUMP", directory.path().c_str(), 1);
  setenv("CCOLL_DUMP_SIGNAL", "USR2", 1);
  auto ranks = Communicator::create_all(2, options_for("inproc"));
  fork_child("a child that is asked for dumps", [] { raise(SIGUSR2); });
  testing::leave_time(200ms);
  check(writers(directory).empty(), "a child's signal has its parent write dumps");
  {
    const testing::Directory own;
    fork_child("a child with ranks of its own that is asked for dumps", [&] {
      setenv("CCOLL_DUMP", own.path().c_str(), 1);
      ranks.clear();
      ranks = Communicator::create_all(2, options_for("inproc"));
      raise(SIGUSR2);
      check_written(own, 2, "dumps of a child's own ranks");
    });
  }
  check(writers(directory).empty(), "a child with ranks of its own has its parent write dumps");

  // The parent's rank 0 is in a function of the caller's when asked, so it cannot write.
  std::atomic<bool> inside = false, go_on = false;
  const auto slow = Reduction::custom(
      [&](const void*, void*, std::size_t, DataType) {
        inside = true;
        while (!go_on) std::this_thread::yield();
      },
      {.name = "slow"});
  std::int32_t got = 0;
  auto never = ranks[0].recv_async(std::span(&got, 1), 1, 7);
  std::vector<std::jthread> blocked;
  for (auto& rank : ranks)
    blocked.emplace_back([&] {
      std::int32_t value = 1;
      rank.reduce(ConstBlock(&value, 1, DataType::int32), Block(&value, 1, DataType::int32), slow,
                  0);
    });
  while (!inside) std::this_thread::yield();
  raise(SIGUSR2);
  check(testing::eventually([&] { return writers(directory).size() == 1; }), "rank 1's dump");
  fork_child("a child of a process that is asked for dumps", [&] {
    while (!never.test()) continue;
    check(std::ranges::count(writers(directory), static_cast<std::uint64_t>(getpid())) == 0,
          "a child writes over its parent's dumps");
  });
  go_on = true;
  check_written(directory, 2, "dumps of a parent that has forked");
  blocked.clear();
  const std::int32_t one = 1;
  ranks[1].send(std::span(&one, 1), 0, 7);
  never.wait();
  unsetenv("CCOLL_DUMP_SIGNAL");
  unsetenv("CCOLL_DUMP");
}

}  // namespace

int main() {
  const testing::KeptPort port;
  for (const auto* transport : {"inproc", "shm", "tcp"}) children(port.address(), transport);
  signals();
  return failures;
}
