// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An operation under way, as the `*_async` calls of a communicator return it.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ccoll/message.hpp"
#include "ccoll/types.hpp"
#include "ccoll/version.hpp"

namespace ccoll {

/// A handle; copies share the operation, and any threads may use them at once.
///
/// The call's buffers belong to the operation until it is over: wait() has returned, or test() is
/// true. Dropping every copy neither cancels it nor gives the buffers back. Closing the
/// communicator ends an operation that is not over, with Error{aborted}.
class CCOLL_API Work {
 public:
  /// Belongs to no operation: over, without an error.
  Work() = default;
  /// Waits until the operation is over, and throws its error if it failed. If `limit` passes first,
  /// throws Error{timed_out}; the operation goes on. A limit of 0 makes what progress can be made
  /// without waiting; no limit leaves the call's own time limit, which ends the operation. In an
  /// open group, see group_end.
  void wait(std::optional<std::chrono::milliseconds> limit = std::nullopt);
  /// Makes progress without waiting; true once the operation is over, whether it failed or not.
  bool test();
  /// The error's text; empty if there is none, or not yet.
  std::string error() const;
  /// Calls `tell` once the operation is over, with its error or null: in a thread of ccoll's, or
  /// soon if it is over already. `tell` may wait, begin operations and wait for them. Such
  /// functions are called one after another, in the order in which operations end; one that takes
  /// more than 2 ms lets the next ones begin. An exception of `tell` is logged, and goes no
  /// further.
  void on_done(std::function<void(const Error*)> tell);
  /// The message, once the operation is over: of its only receive, or the `receive`-th of a batch.
  /// Throws the error of a receive that failed, and Error{invalid_argument} before the operation is
  /// over, if it has no such receive, or if there is no operation.
  Received received(std::size_t receive = 0) const;

  struct CCOLL_HIDDEN State;  ///< ccoll's own
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace ccoll
