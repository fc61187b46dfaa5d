// SPDX-License-Identifier: Apache-2.0
// Ranks that come to a start-up when it has failed: they hear why at once, as those do that it
// failed under. No Catch2: it forks.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/ranks.hpp"
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
constexpr auto kDies = 500ms;
constexpr auto kLate = 1500ms;

/// Takes part in the start-up, whose limit is a minute, and checks what it is told.
void be_rank(int rank, const std::string& store) {
  if (rank >= kFirstLate) std::this_thread::sleep_for(kLate);
  if (rank == kDead)
    std::thread([] {
      std::this_thread::sleep_for(kDies);
      ::_exit(0);
    }).detach();
  const auto began = Clock::now();
  const auto text =
      message_of([&] { Communicator::create(connect_tcp_store(store), rank, kSize); });
  const auto said = "rank " + std::to_string(rank) + ": " + text;
  std::cout << said << std::endl;
  check(text.starts_with("peer_lost: ") && text.find("rank 2 ") != text.npos, said);
  check(Clock::now() - began < 20s, said);
}

}  // namespace

int main() {
  const auto server = serve_tcp_store();
  std::vector<pid_t> children;
  for (int rank = 0; rank < kSize; rank++) {
    const pid_t child = ::fork();
    if (child == 0) {
      be_rank(rank, server->address());
      ::_exit(failures == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    check(status == 0, "a rank ends with status " + std::to_string(status));
  }
  return failures == 0 ? 0 : 1;
}
