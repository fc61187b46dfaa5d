// SPDX-License-Identifier: Apache-2.0
#include "system/file_descriptor.hpp"

#include <fcntl.h>

#include <cerrno>
#include <mutex>

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

/// Two threads that take the numbers at once would each count on those of the other.
ProcessMutex taking;

}  // namespace

StandardStreamsTaken::StandardStreamsTaken() {
  taking.lock();
  int number = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (; is_standard_stream(number); number = ::open("/dev/null", O_RDWR | O_CLOEXEC))
    is_taken_[static_cast<std::size_t>(number)] = true;
  if (number >= 0) ::close(number);
}

StandardStreamsTaken::~StandardStreamsTaken() {
  for (int number = 0; is_standard_stream(number); number++)
    if (is_taken_[static_cast<std::size_t>(number)]) ::close(number);
  taking.unlock();
}

}  // namespace ccoll
