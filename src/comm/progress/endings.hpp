// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Functions that are called when operations are over.

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "comm/progress/callback_thread.hpp"

namespace ccoll {

/// A callback that runs once so many operations are over.
class Ending {
 public:
  Ending(std::unique_ptr<Callback> callback, std::size_t operations)
      : callback_(std::move(callback)), left_(operations) {}

  /// One of them is over. From any thread.
  void operation_ended() noexcept {
    if (left_.fetch_sub(1) == 1) CallbackThreads::run(std::move(callback_));
  }

 private:
  std::unique_ptr<Callback> callback_;
  std::atomic<std::size_t> left_;
};

/// The endings of one operation. From any thread.
class Endings {
 public:
  Endings() = default;
  ~Endings();
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;

  /// Runs at once if the operation is over already.
  void add(std::shared_ptr<Ending> ending);
  /// The operation is over.
  void tell() noexcept;
  /// The operation, which was over, is under way again. Nobody else knows of it yet.
  void begin_again() { first_.store(nullptr, std::memory_order_relaxed); }

 private:
  struct Node {
    std::shared_ptr<Ending> ending;
    Node* next;  ///< the one that was added before
  };
  static Node over;  ///< stands for the list of an operation that is over

  std::atomic<Node*> first_{nullptr};
};

}  // namespace ccoll
