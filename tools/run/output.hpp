// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An output that others read, written without waiting for them: what they do not take yet is kept.
/// Knows nothing of ranks or lines.

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

namespace ccoll {

class Output {
 public:
  /// What is kept for a reader that pauses; who adds more than that does not stop at full().
  static constexpr std::size_t kMostKeptBytes = 1 << 20;

  explicit Output(int descriptor) : descriptor_(descriptor) {}

  void add(std::string_view bytes) {
    if (error_ == 0) kept_ += bytes;
  }
  /// Writes what can be written now. The error's number if that is its end; else 0.
  int write_some();

  int descriptor() const { return descriptor_; }
  bool empty() const { return kept_.empty(); }
  bool full() const { return kept_.size() >= kMostKeptBytes; }
  /// Nobody reads it any more. Where another error ended it, a full disk say, what is added is
  /// dropped, too, but whoever writes there need not know.
  bool unread() const { return error_ == EPIPE; }

 private:
  const int descriptor_;
  std::string kept_;
  int error_ = 0;  // that was its end
};

}  // namespace ccoll
