// SPDX-License-Identifier: Apache-2.0
// Ranks that come to a start-up after it has failed hear the reason at once, as the ranks that
// waited in it do. No Catch2: it forks.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include "ccoll/ccoll.hpp"
#include "support/children.hpp"
#include "support/eventually.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"
#include "support/verdict.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kSize = 7;
/// It dies before all have come. Ranks 5 and 6 would reach the others through it.
constexpr int kDead = 2;
constexpr int kFirstLate = 3;

/// Takes part in the start-up, with a limit of a minute, and checks its error. Late ranks come once
/// the others have `failed`.
void be_rank(int rank, const std::string& store, std::atomic<int>& failed) {
  if (rank >= kFirstLate)
    check(eventually([&] { return failed >= kDead; }), "a start-up waits for late ranks");
  if (rank == kDead)
    std::thread([] {
      leave_time(500ms);  // nobody sees when it has joined its parent
      ::_exit(0);
    }).detach();
  const auto began = Clock::now();
  const auto text =
      message_of([&] { Communicator::create(connect_tcp_store(store), rank, kSize); });
  failed++;
  const auto said = "rank " + std::to_string(rank) + ": " + text;
  std::cout << said << std::endl;
  check(text.starts_with("peer_lost: ") && text.find("rank 2 ") != text.npos, said);
  check(Clock::now() - began < 20s, said);
}

}  // namespace

int main() {
  const auto server = serve_tcp_store();
  const SharedCount failed;
  run_processes(kSize, [&](int rank) { be_rank(rank, server->address(), *failed); });
  return failures == 0 ? 0 : 1;
}
