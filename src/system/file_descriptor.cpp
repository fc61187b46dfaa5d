// SPDX-License-Identifier: Apache-2.0
#include "system/file_descriptor.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <utility>

#include "system/process_mutex.hpp"

namespace ccoll {

int beyond_standard_streams(int number) {
  if (!is_standard_stream(number)) return number;
  const int beyond = ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(number);
  errno = error;
  return beyond;
}

namespace {

/// The numbers that all live objects have taken together. Made before main, so that fork() finds it
/// complete.
struct Taken {
  ProcessMutex mutex;
  int holders = 0;                                // guarded by mutex, like the next
  std::array<bool, STDERR_FILENO + 1> numbers{};  // opened by the first, closed by the last
};
Taken taken;

}  // namespace

StandardStreamsTaken::StandardStreamsTaken() {
  const std::lock_guard lock(taken.mutex);
  if (taken.holders++ > 0) return;
  int number = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (; is_standard_stream(number); number = ::open("/dev/null", O_RDWR | O_CLOEXEC))
    taken.numbers[static_cast<std::size_t>(number)] = true;
  if (number >= 0) ::close(number);
}

StandardStreamsTaken::~StandardStreamsTaken() {
  const std::lock_guard lock(taken.mutex);
  if (--taken.holders > 0) return;
  for (int number = 0; is_standard_stream(number); number++)
    if (std::exchange(taken.numbers[static_cast<std::size_t>(number)], false)) ::close(number);
}

}  // namespace ccoll
