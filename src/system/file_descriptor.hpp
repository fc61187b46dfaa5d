// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Owns a file descriptor that is never one of the standard streams. Their numbers, 0 to 2, are the
/// program's even while they are closed: its output must not reach a peer.

#include <unistd.h>

#include <utility>

namespace ccoll {

constexpr bool is_standard_stream(int number) { return number >= 0 && number <= STDERR_FILENO; }

/// The same file under a number beyond the standard streams, if it has one of theirs; the old
/// number is closed. Returns -1 if there is no other number: errno has the reason.
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
};

}  // namespace ccoll
