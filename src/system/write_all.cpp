// SPDX-License-Identifier: Apache-2.0
#include "system/write_all.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "core/os_error.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll {
namespace {

/// If file sizes are limited, growing a file beyond the limit sends a signal that is fatal.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~NoSizeSignal() {
    const timespec none{};
    if (sigismember(&before_, SIGXFSZ) == 0) sigtimedwait(&signals_, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t signals_;
  sigset_t before_;
};

Status cannot(const char* what, const std::string& path, int error) {
  return fail(ErrorKind::exhausted, "cannot {} {}: {}", what, path, os_error(error));
}

}  // namespace

bool is_output_unread() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

void open_missing_streams() {
  // open() returns the lowest free number.
  int number = 0;
  while (number >= 0 && number <= STDERR_FILENO) number = ::open("/dev/null", O_RDWR);
  if (number > STDERR_FILENO) ::close(number);
}

int write_all(int file, std::span<const std::byte> bytes) {
  const NoSizeSignal blocked;
  while (!bytes.empty()) {
    const auto written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

Status print_whole(std::string_view text) {
  const int failed =
      std::fflush(stdout) == 0 ? write_all(STDOUT_FILENO, std::as_bytes(std::span(text))) : errno;
  return failed == 0 ? Status() : cannot("write", "standard output", failed);
}

int resize_file(int file, std::size_t bytes) {
  const NoSizeSignal blocked;
  return ::ftruncate(file, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

Status write_file(const std::string& path, std::string_view text, unsigned mode) {
  std::error_code error;
  const auto directory = std::filesystem::path(path).parent_path();
  if (!directory.empty()) std::filesystem::create_directories(directory, error);
  if (error) return cannot("make the directory", directory.string(), error.value());
  // The file gets its name last, so a reader finds it whole.
  const auto unfinished = fmt::format("{}.{}.part", path, ::getpid());
  FileDescriptor file(
      ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file.open()) return cannot("write", path, errno);
  const int failed = write_all(file.number(), std::as_bytes(std::span(text)));
  file.close();
  if (failed == 0 && std::rename(unfinished.c_str(), path.c_str()) == 0) return {};
  const int why = failed != 0 ? failed : errno;
  ::unlink(unfinished.c_str());
  return cannot("write", path, why);
}

}  // namespace ccoll
