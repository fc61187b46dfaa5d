// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The threads that call the program's own functions, when the library has something to tell.

#include <memory>

namespace ccoll {

/// One call of a function of the program.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void run() noexcept = 0;

 private:
  friend class CallbackThreads;
  std::unique_ptr<Callback> next_;
};

/// One thread runs callbacks in their order. A callback may wait for a later one: after 2 ms
/// another thread takes its place, and goes on with those behind it. So a callback overlaps with
/// the next ones if it waits, or if its thread gets no processor, for longer than that.
class CallbackThreads {
 public:
  /// Makes sure that there are threads. Throws std::system_error.
  static void start();
  /// Only after start(). It neither waits nor allocates.
  static void run(std::unique_ptr<Callback> callback) noexcept;

 private:
  class Process;
  static const int fork_registered;
};

}  // namespace ccoll
