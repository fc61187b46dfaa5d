// SPDX-License-Identifier: Apache-2.0
// Ranks in separate processes, with many communicators and few descriptors.
//   descriptors_test many             more communicators than a usual limit would allow sockets
//   descriptors_test few TRANSPORT    one rank's limit is nearly reached: all hear of it
//   descriptors_test start TRANSPORT  the same while it starts
//   descriptors_test ahead            first calls of a small job over TCP connect to nobody
// No Catch2: the test forks, and limits apply to the whole process.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "rendezvous/identity.hpp"
#include "support/children.hpp"
#include "support/directory.hpp"
#include "support/held.hpp"
#include "support/limited_descriptors.hpp"
#include "support/ranks.hpp"
#include "support/verdict.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

constexpr int kSize = 4;

/// The rank that has few descriptors.
constexpr int kPoor = 2;

/// `body(world)` on each rank, in a process of its own.
void run_job(const std::string& transport, const std::function<void(Communicator&)>& body) {
  const Directory directory;
  run_processes(kSize, [&](int rank) {
    auto world = Communicator::create(make_file_store(directory.file("store")), rank, kSize,
                                      options_for(transport, 120s));
    body(world);
  });
}

void limit_both(rlim_t most) {
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void sum(Communicator& communicator, std::size_t count) {
  std::vector<std::int32_t> values(count, communicator.rank() + 1);
  communicator.all_reduce(values);
  expect(std::ranges::all_of(values, [](int each) { return each == kSize * (kSize + 1) / 2; }),
         "a wrong sum");
}

/// Communicators over shared memory share what they need. Those used in turn hold next to no
/// descriptors of their own, and all together manage with the available ones.
void many(Communicator& world) {
  constexpr std::size_t kAlive = 600;
  limit_both(1024);
  std::vector<Communicator> alive;
  for (std::size_t i = 0; i < kAlive; i++) sum(alive.emplace_back(world.duplicate()), 1 + i);
  const auto held = held_at_rest().descriptors;
  check(held < kAlive / 2, std::to_string(held) + " descriptors");
  // Many small communicators must not exhaust slots and so fall back from shared memory.
  for (const auto& each : {std::cref(alive.front()), std::cref(alive.back())})
    for (const auto& peer : each.get().counters().peers)
      check(peer.transport == "shm", "rank " + std::to_string(peer.rank) + ": " + peer.transport);
  std::vector<std::vector<std::int32_t>> values(kAlive, std::vector<std::int32_t>(300, 1));
  std::vector<Work> works;
  for (std::size_t i = 0; i < kAlive; i++) works.push_back(alive[i].all_reduce_async(values[i]));
  for (auto& work : works) work.wait();
  for (const auto& each : values) check(each[0] == kSize && each[299] == kSize, "a wrong sum");
  alive.clear();
  world.barrier();
}

/// Rank 2 runs out of descriptors while communicators are made and first used.
void few(Communicator& world) {
  constexpr std::size_t kTries = 300;
  sum(world, 1);
  if (world.rank() == kPoor) limit_both(held_at_rest().descriptors + 20);
  std::vector<Communicator> alive;
  const auto text = message_of([&] {
    while (alive.size() < kTries) sum(alive.emplace_back(world.duplicate()), 1);
  });
  const auto said = "rank " + std::to_string(world.rank()) + ", after " +
                    std::to_string(alive.size()) + " communicators: " + text;
  // It must not close any earlier, or the others would hear that it left.
  std::cout << said << std::endl;
  check(alive.size() < kTries, said);
  const auto is_told = [](const std::string& each) {
    return each.starts_with("exhausted: ") && each.find("rank 2") != each.npos;
  };
  // A rank may have its result before rank 2 fails. Then the same communicator's next call reports
  // it, while the next communicator only says that a rank has left.
  const bool is_late = alive.size() > 1 && text.starts_with("peer_lost: ");
  const auto told = is_late ? message_of([&] { sum(*(alive.end() - 2), 1); }) : text;
  check(is_told(told), said + "; before: " + told);
  // They can be closed in any order, although the rank still has its limit.
  alive.clear();
}

/// Rank 2 starts with `left` descriptors, too few to reach or finish the start-up. The others hear
/// the reason well within their time limit of a minute.
void start(const std::string& transport, rlim_t left) {
  const auto server = serve_tcp_store();
  run_processes(kSize, [&](int rank) {
    const auto store = connect_tcp_store(server->address());
    if (rank == kPoor) limit_both(held_now().descriptors + left);
    const auto began = std::chrono::steady_clock::now();
    const auto text = message_of([&] {
      auto world = Communicator::create(store, rank, kSize, options_for(transport, 120s));
      sum(world, 1000);
    });
    const auto said =
        "with " + std::to_string(left) + ", rank " + std::to_string(rank) + ": " + text;
    std::cout << said << std::endl;
    if (text == "no error") return;
    check(std::chrono::steady_clock::now() - began < 20s, said);
    check(text.starts_with("exhausted: "), said);
    check(rank == kPoor || text.find("rank 2") != text.npos, said);
    check(text.find("ulimit -n") != text.npos, said);
  });
}

/// Links of a small job's first calls are opened as it starts, those that only long calls use, too.
void ahead() {
  constexpr int kTwo = 2;
  if (usable_cores() < kTwo) return;
  const Directory directory;
  run_processes(kTwo, [&](int rank) {
    auto world = Communicator::create(make_file_store(directory.file("store")), rank, kTwo,
                                      options_for("tcp", 120s));
    const auto before = held_at_rest().descriptors;
    for (const std::size_t count : {1, 256 << 10}) {
      std::vector<float> values(count, 1);
      world.all_reduce(values);
      expect(values.front() == kTwo && values.back() == kTwo, "a wrong sum");
      const auto held = held_now().descriptors;
      check(held == before, std::to_string(held) + " descriptors after a sum of " +
                                std::to_string(count) + ", before " + std::to_string(before));
    }
    world.barrier();
  });
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view what = count > 1 ? arguments[1] : "";
  if (what == "many") run_job("shm", many);
  if (what == "few" && count > 2) run_job(arguments[2], few);
  if (what == "ahead") ahead();
  constexpr int kMostLeft = 20;
  if (what == "start" && count > 2)
    run_processes(kMostLeft, [&](int i) { start(arguments[2], static_cast<rlim_t>(i) + 1); });
  return failures == 0 ? 0 : 1;
}
