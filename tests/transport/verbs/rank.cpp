// SPDX-License-Identifier: Apache-2.0
// A rank of a job over RDMA; the last rank dies where CCOLL_TEST_RDMA says (tests/rdma). The others
// must get an error that names it, in time, shrink() and continue. If it dies after all calls, that
// is no error.
//   verbs_rank CALLS     prints "ok", or what is wrong
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "rdma/faults.hpp"
#include "support/ranks.hpp"

using namespace std::chrono_literals;

namespace {

using namespace ccoll;
using testing::expect;

/// Uses registered memory, which slices are read from and written to in place.
void tell_all(Communicator& world, int number) {
  static const Memory memory = allocate(50'000 * sizeof(std::int32_t));
  const auto data = memory.as<std::int32_t>();
  const int root = number % world.size();
  std::ranges::fill(data, world.rank() == root ? number : -1);
  world.broadcast(data, root);
  expect(std::ranges::all_of(data, [&](auto each) { return each == number; }), "a wrong broadcast");
}

/// In turn: a call of one line, one of many slices, and a broadcast.
void call(Communicator& world, int number) {
  if (number % 3 == 2) return tell_all(world, number);
  const std::size_t count = number % 3 == 0 ? 2 : 100'000;
  std::vector<std::int32_t> in(count, 1), out(count);
  world.all_reduce(in, out);
  expect(std::ranges::all_of(out, [&](auto each) { return each == world.size(); }), "a wrong sum");
}

void go_on_without(int victim, Communicator& world, const std::string& error) {
  expect(error.starts_with("peer_lost: "), "another kind of error: " + error);
  expect(error.find("rank " + std::to_string(victim)) != error.npos, "not named in: " + error);
  auto rest = world.shrink();
  expect(rest.size() == victim, "another size after shrink()");
  for (int i = 0; i < 4; i++) call(rest, i);
}

void run(int calls) {
  auto options = CommunicatorOptions::from_environment();
  options.timeout = 60s;
  auto world = Communicator::create(options);
  const int victim = world.size() - 1;
  const auto begin = std::chrono::steady_clock::now();
  const auto error = testing::message_of([&] {
    for (int i = 0; i < calls; i++) call(world, i);
    world.close();
  });
  // 2 s are promised; the rest is for an emulated machine.
  const auto took = std::chrono::steady_clock::now() - begin;
  expect(took < 30s, "it took too long");
  if (error != "no error") go_on_without(victim, world, error);
}

}  // namespace

int main(int, char** arguments) {
  try {
    run(std::atoi(arguments[1]));
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  std::printf(
      "ok, %llu of modify_qp\n",
      static_cast<unsigned long long>(testing::rdma::times_called(testing::rdma::Call::modify_qp)));
  return 0;
}
