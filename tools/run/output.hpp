// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An output written without waiting for its readers: unread data is buffered. Does not depend on
/// ranks or lines.

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

namespace ccoll {

class Output {
 public:
  /// The buffer for a paused reader; exceeded if data is added despite full().
  static constexpr std::size_t kMostKeptBytes = 1 << 20;

  explicit Output(int descriptor) : descriptor_(descriptor) {}

  void add(std::string_view bytes) {
    if (error_ == 0) kept_ += bytes;
  }
  /// Writes as much as possible. Returns the errno that ended the output, or 0.
  int write_some();

  int descriptor() const { return descriptor_; }
  bool empty() const { return kept_.empty(); }
  bool full() const { return kept_.size() >= kMostKeptBytes; }
  /// Nobody reads it any more. If another error, such as a full disk, has ended it, added data is
  /// dropped, too, but its writers need not know.
  bool unread() const { return error_ == EPIPE; }

 private:
  const int descriptor_;
  std::string kept_;
  int error_ = 0;  // the error that ended it
};

}  // namespace ccoll
