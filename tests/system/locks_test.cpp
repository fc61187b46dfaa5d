// SPDX-License-Identifier: Apache-2.0
#include "system/locks.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <string_view>
#include <thread>

#include "support/children.hpp"
#include "support/logged.hpp"
#include "system/file_descriptor.hpp"
#include "system/log.hpp"

using namespace ccoll;

namespace {

/// The status of a child that runs `body`, which must end within 5 s.
template <typename Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);
    body();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a mutex of the process is free in every child, and guards there", "[core][unit]") {
  ProcessMutex mutex;
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) {
      const std::lock_guard lock(mutex);
      const NoFork nested;
    }
  });
  for (int i = 0; i < 100; i++)
    CHECK(status_of_child([&] {
            const std::lock_guard lock(mutex);
            const NoFork nested;
          }) == 0);
  over = true;
  other.join();
  // A child may fork as well.
  CHECK(status_of_child([&] {
          const int status = status_of_child([&] { const std::lock_guard lock(mutex); });
          if (status != 0) _exit(1);
        }) == 0);
}

TEST_CASE("who forks waits for what is under way", "[core][unit]") {
  auto one = 0, other = 0;
  std::atomic<bool> over = false;
  std::thread counting([&] {
    while (!over) {
      const NoFork no_fork;
      one++;
      std::this_thread::yield();
      other++;
    }
  });
  for (int i = 0; i < 100; i++)
    CHECK(status_of_child([&] {
            if (one != other) _exit(1);
          }) == 0);
  over = true;
  counting.join();
}

TEST_CASE("a child has something to say, too, though its parent was speaking", "[core][unit]") {
  if (!testing::kChildrenHaveMemory) return;
  (void)testing::logged([] {
    std::atomic<bool> over = false;
    std::thread speaking([&] {
      while (!over) log().error("the parent speaks");
    });
    for (int i = 0; i < 100; i++) {
      const FileDescriptor said(memfd_create("said", MFD_CLOEXEC));
      CHECK(status_of_child([&] {
              dup2(said.number(), STDERR_FILENO);
              log().error("a child speaks");
            }) == 0);
      std::array<char, 100> text{};
      const auto bytes = pread(said.number(), text.data(), text.size(), 0);
      CHECK(std::string_view(text.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))) ==
            "ccoll: error: a child speaks\n");
    }
    over = true;
    speaking.join();
  });
}
