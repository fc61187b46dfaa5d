// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator as NCCL's clients know it: it may still be starting, and any thread may ask it.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ccoll/communicator.hpp"
#include "faces/nccl/device/device.hpp"
#include "faces/nccl/results.hpp"
#include "faces/nccl/settings/config.hpp"
#include "system/locks.hpp"

namespace ccoll::nccl {

class Comm {
 public:
  enum class State : std::uint8_t {
    initialising,
    ready,
    finalised,
    revoked,
    ended,  ///< destroyed or aborted
  };
  struct Place {
    int rank = 0;
    int size = 1;
    int device = kHost;
  };

  Comm(Place place, Config config);
  /// For one that has started.
  Comm(Communicator communicator, int device, Config config);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  int device() const { return place_.device; }
  const Config& config() const { return config_; }
  bool is_blocking() const { return is_blocking_; }
  /// "rank 3 of comm 'dp' (8 ranks)".
  std::string text() const;

  State state() const { return state_.load(std::memory_order_acquire); }
  /// The first failure, else whether something is in progress. Never blocks.
  ncclResult_t async_error();

  /// Throws Refusal while something is in progress, whose outcome is unknown. For a communicator
  /// that does not block, this becomes its failure.
  void check_known();
  /// Throws Refusal unless a call or job can begin now; check_usable() also while it is suspended.
  void check_open();
  void check_usable();
  /// The same for making another one from it: that may be revoked, or broken if `may_be_broken`.
  void check_parent(bool may_be_broken);
  /// Only once it has started.
  Communicator& communicator() { return *communicator_; }

  /// Takes the outcome of starting. False if it was ended meanwhile: then `made` is dropped.
  bool came_up(Communicator&& made);
  /// Keeps the first failure.
  void fail(const Refusal& refusal);
  /// Turns a call's exception into the caller's refusal, and finds whether it has broken the
  /// communicator.
  Refusal failed_call(std::string_view call);
  /// Looks for a failure that shows only in the communicator, as after a group of calls failed.
  void look_for_failure();

  /// A job is in progress in a communicator that does not block; async_error reports it.
  void begin_job() { jobs_.fetch_add(1, std::memory_order_acq_rel); }
  void end_job() { jobs_.fetch_sub(1, std::memory_order_acq_rel); }
  bool has_job() const { return jobs_.load(std::memory_order_acquire) > 0; }

  /// A call is under way as long as this lives.
  class UnderWay {
   public:
    explicit UnderWay(Comm& comm) : comm_(comm) { comm_.under_way_.fetch_add(1); }
    ~UnderWay() { comm_.under_way_.fetch_sub(1); }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

   private:
    Comm& comm_;
  };

  void finalise();
  void revoke();
  /// Leaves in order; throws errors that no call could report any more.
  void destroy();
  /// Ends all that is in progress, also starting.
  void abort();
  /// Informs a start of it that is in progress that it was ended.
  std::stop_token ending() const { return ending_soon_.get_token(); }

  /// The number of the next message to or from `peer`: those of a pair match in their order.
  int next_message(int peer, bool sends);

  bool is_suspended() const { return is_suspended_.load(std::memory_order_acquire); }
  /// False if it is so already.
  bool suspend(bool suspended) { return is_suspended_.exchange(suspended) != suspended; }

  /// Orders its calls over several streams.
  device::Order& order() { return order_; }

 private:
  void check_failure() const;

  Place place_;
  const Config config_;
  const bool is_blocking_;
  std::optional<Communicator> communicator_;  ///< from `ready` on
  std::atomic<State> state_;
  std::atomic<ncclResult_t> failure_ = ncclSuccess;
  std::atomic<int> jobs_ = 0;
  std::atomic<int> under_way_ = 0;
  std::atomic<bool> is_suspended_ = false;
  Guarded<std::string> failure_text_;
  std::mutex ending_;  ///< orders its leaving and questions to it: nobody may ask meanwhile
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tags_;  // of messages to and from each rank
  std::stop_source ending_soon_;
  device::Order order_;
};

}  // namespace ccoll::nccl
