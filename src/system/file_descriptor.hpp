// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Owns a file descriptor that is never one of the standard streams. Their numbers, 0 to 2, are the
/// program's even while they are closed: its output must not reach a peer.

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace ccoll {

constexpr bool is_standard_stream(int number) { return number >= 0 && number <= STDERR_FILENO; }

/// The same file under a number beyond the standard streams, if it has one of theirs. The old
/// number is closed, or stays taken while a StandardStreamsTaken lives. Returns -1 if there is no
/// other number: errno has the reason.
int beyond_standard_streams(int number);

/// Closes the descriptor when destroyed; -1 is none.
class FileDescriptor final {
 public:
  explicit FileDescriptor(int number = -1)
      : number_(is_standard_stream(number) ? beyond_standard_streams(number) : number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = other.release();
    }
    return *this;
  }
  ~FileDescriptor() { close(); }

  int number() const { return number_; }
  bool open() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }
  /// Gives the number to the caller, which must close it.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// While one lives, files opened by others (a library, Asio itself) find the numbers of the
/// standard streams taken. Several may live at once; none waits for another's end, nor does fork().
class StandardStreamsTaken final {
 public:
  StandardStreamsTaken();
  ~StandardStreamsTaken();
  StandardStreamsTaken(const StandardStreamsTaken&) = delete;
  StandardStreamsTaken& operator=(const StandardStreamsTaken&) = delete;

  /// False if a number that was in use at the beginning has another file now: another thread has
  /// closed its own, and a library may have got the number.
  bool held() const;

 private:
  using File = std::optional<std::pair<dev_t, ino_t>>;
  using Files = std::array<File, STDERR_FILENO + 1>;
  static Files files();

  Files at_first_;
};

/// Calls `make`, in which a library opens files that it keeps, and returns the result. If one of
/// the files may have the number of a standard stream, `make` is called again, at most three times.
/// Each refused result lives until the end, so that its number stays taken.
template <typename Make>
auto made_beyond_standard_streams(Make make) {
  std::vector<decltype(make())> refused;
  while (true) {
    const StandardStreamsTaken taken;
    auto made = make();
    if (taken.held() || refused.size() > STDERR_FILENO) return made;
    refused.push_back(std::move(made));
  }
}

}  // namespace ccoll
