// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/fork_notice.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "support/children.hpp"

namespace ccoll::test {
namespace {

struct Told final : ForkNotice::Listener {
  void forked() override { times++; }
  int times = 0;
  int expected = 0;
  std::optional<ForkNotice> notice;
};

/// Whether all have been told as often as expected. Forked children ask, so it does not allocate.
bool all_know(const std::vector<Told>& listeners) {
  for (const auto& each : listeners)
    if (each.times != each.expected) return false;
  return true;
}

/// A child's answer; false if it crashes or hangs.
template <typename Ask>
bool child_says(Ask ask) {
  constexpr unsigned kTooLong = 10;
  const pid_t child = fork();
  if (child == 0) {
    alarm(kTooLong);
    _exit(ask() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

TEST_CASE("fork notice: in a child all that have one are told once, and nobody else is",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<Told> listeners(8);
  for (int trial = 0; trial < 30; trial++) {
    for (auto changes = random() % 8; changes > 0; changes--) {
      auto& one = listeners[random() % listeners.size()];
      if (one.notice)
        one.notice.reset();
      else
        one.notice.emplace(one);
    }
    for (auto& each : listeners) each.expected = each.notice ? 1 : 0;
    CHECK(child_says([&] {
      if (!all_know(listeners)) return false;
      // A child's child is a copy again.
      for (auto& each : listeners) each.expected *= 2;
      return child_says([&] { return all_know(listeners); });
    }));
    for (auto& each : listeners) each.expected = 0;
    CHECK(all_know(listeners));  // this process is no copy
  }
}

TEST_CASE("fork notice: a child may have one, whatever other threads did when it was forked",
          "[comm][unit]") {
  if (!testing::kChildrenHaveMemory) return;
  std::atomic<bool> stop = false;
  std::thread other([&] {
    Told listener;
    while (!stop) const ForkNotice notice(listener);
  });
  bool all_well = true;
  for (int trial = 0; trial < 50 && all_well; trial++)
    all_well = child_says([] {
      Told listener;
      listener.notice.emplace(listener);
      listener.notice.reset();
      return true;
    });
  stop = true;
  other.join();
  CHECK(all_well);
}

}  // namespace ccoll::test
