// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The public Store over any backend that answers requests.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "ccoll/store.hpp"
#include "core/patience.hpp"
#include "rendezvous/stores/request.hpp"
#include "system/locks.hpp"

namespace ccoll::rendezvous {

class Backend {
 public:
  virtual ~Backend() = default;
  /// Blocks until `request` (a valid one) is answered, or fails with `timed_out`. From any thread,
  /// several at once. A request that timed out has no effect later.
  virtual Result<Response> call(Request request, std::chrono::milliseconds timeout) = 0;
  /// See Store.
  virtual std::string address() const { return {}; }
};

/// Checks arguments, calls `backend`, and throws its failures as ccoll::Error.
std::shared_ptr<Store> make_store(std::unique_ptr<Backend> backend);

/// An answer that one thread waits for and another gives.
template <typename T>
class Answer {
 public:
  /// False if there is an answer already: the waiting thread may have taken it and left.
  bool fill(Result<T> answer) {
    {
      const auto given = given_.lock();
      if (given->is_filled) return false;
      given->is_filled = true;
      given->answer = std::move(answer);
    }
    filled_.notify_one();
    return true;
  }
  /// The answer, once; nullopt if there is none by `deadline`.
  std::optional<Result<T>> wait_until(std::chrono::steady_clock::time_point deadline) {
    auto given = given_.lock();
    given.wait_until(filled_, deadline, [](const Given& now) { return now.answer.has_value(); });
    return std::exchange(given->answer, std::nullopt);
  }
  /// The same, but an end of this thread's patience (core/patience.hpp) ends it too.
  std::optional<Result<T>> wait_patiently(std::chrono::steady_clock::time_point deadline) {
    const std::stop_callback ended(Patience::of_thread().stop,
                                   [this] { fill(tl::unexpected(ended_from_outside())); });
    return wait_until(deadline);
  }

 private:
  struct Given {
    bool is_filled = false;
    std::optional<Result<T>> answer;  ///< until it is taken
  };
  Guarded<Given> given_;
  std::condition_variable filled_;
};
using Slot = Answer<Response>;

}  // namespace ccoll::rendezvous
