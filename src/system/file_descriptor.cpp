// SPDX-License-Identifier: Apache-2.0
#include "system/file_descriptor.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

/// The numbers that all live objects have taken together.
struct Taken {
  int holders = 0;
  std::array<bool, STDERR_FILENO + 1> numbers{};  // opened by the first, closed by the last

  void take() {
    int number = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (; is_standard_stream(number); number = ::open("/dev/null", O_RDWR | O_CLOEXEC))
      numbers[static_cast<std::size_t>(number)] = true;
    if (number >= 0) ::close(number);
  }
};

Guarded<Taken, ProcessMutex>& taken_of_process() {
  return Runtime::one<Guarded<Taken, ProcessMutex>>();
}

}  // namespace

int beyond_standard_streams(int number) {
  if (!is_standard_stream(number)) return number;
  const auto taken = taken_of_process().lock();
  const int beyond = ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  // A holder found this number in use, and relies on its staying so.
  const int placeholder = taken->holders > 0 ? ::open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
  if (placeholder >= 0 && ::dup3(placeholder, number, O_CLOEXEC) == number)
    taken->numbers[static_cast<std::size_t>(number)] = true;
  else
    ::close(number);
  if (placeholder >= 0) ::close(placeholder);
  errno = error;
  return beyond;
}

StandardStreamsTaken::StandardStreamsTaken() {
  const auto taken = taken_of_process().lock();
  if (taken->holders++ == 0) taken->take();
  at_first_ = files();
}

StandardStreamsTaken::Files StandardStreamsTaken::files() {
  Files files;
  for (std::size_t number = 0; number < files.size(); number++) {
    struct stat facts {};
    if (::fstat(static_cast<int>(number), &facts) == 0)
      files[number] = {facts.st_dev, facts.st_ino};
  }
  return files;
}

bool StandardStreamsTaken::held() const {
  const Files now = files();
  return std::ranges::equal(
      at_first_, now, [](const File& first, const File& file) { return !file || file == first; });
}

StandardStreamsTaken::~StandardStreamsTaken() {
  const auto taken = taken_of_process().lock();
  if (--taken->holders > 0) return;
  for (int number = 0; is_standard_stream(number); number++)
    if (std::exchange(taken->numbers[static_cast<std::size_t>(number)], false)) ::close(number);
}

}  // namespace ccoll
