// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The public Store over any way of getting a request answered.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ccoll/store.hpp"
#include "rendezvous/stores/request.hpp"

namespace ccoll::rendezvous {

class Backend {
 public:
  virtual ~Backend() = default;
  /// Blocks until `request` (a valid one) is answered, or fails with `timed_out`. From any thread,
  /// several at once. A request that timed out has no effect any more.
  virtual Result<Response> call(Request request, std::chrono::milliseconds timeout) = 0;
  /// See Store.
  virtual std::string address() const { return {}; }
};

/// Checks arguments, asks `backend`, and throws its failures as ccoll::Error.
std::shared_ptr<Store> make_store(std::unique_ptr<Backend> backend);

/// What one thread waits for and another answers.
class Slot {
 public:
  void fill(Result<Response> response) {
    {
      const std::lock_guard lock(mutex_);
      if (!response_) response_ = std::move(response);
    }
    filled_.notify_one();
  }
  /// The answer, once; nullopt if there is none by then.
  std::optional<Result<Response>> wait_until(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    filled_.wait_until(lock, deadline, [&] { return response_.has_value(); });
    return std::move(response_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::optional<Result<Response>> response_;  // guarded by mutex_
};

}  // namespace ccoll::rendezvous
