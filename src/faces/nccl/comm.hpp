// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator as NCCL's clients know it: it may still be coming up, ask it from any thread.

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
  /// One that has come up.
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
  /// The first failure, else whether something goes on. Never blocks.
  ncclResult_t async_error();

  /// Throws Refusal while something goes on, which is not known by then. Of a communicator that
  /// does not block that is its failure from then on.
  void check_known();
  /// Throws Refusal unless a call or job can begin now; the first also where it is suspended.
  void check_open();
  void check_usable();
  /// The same for what makes another of it: also where it was revoked, or may be broken.
  void check_parent(bool may_be_broken);
  /// Only once it has come up.
  Communicator& communicator() { return *communicator_; }

  /// Takes the outcome of starting up. False where it was ended meanwhile: then `made` is dropped.
  bool came_up(Communicator&& made);
  /// Keeps the first failure.
  void fail(const Refusal& refusal);
  /// Turns a call's exception into what the caller is told, and finds whether the communicator is
  /// broken by it.
  Refusal failed_call(std::string_view function, std::uint64_t number);
  /// A failure that shows in the communicator alone, as where a group of calls failed.
  void look_for_failure();

  /// Something that a communicator that does not block goes on with; async_error tells of it.
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
  /// Leaves in order; throws what no call could tell any more.
  void destroy();
  /// Ends whatever goes on, also starting up.
  void abort();
  /// Tells that it was ended, while something of it comes up.
  std::stop_token ending() const { return ending_soon_.get_token(); }

  std::uint64_t next_number() { return calls_.fetch_add(1, std::memory_order_relaxed) + 1; }
  /// The number of the next message to or from `peer`: those of a pair match in their order.
  int next_message(int peer, bool sends);

  bool is_suspended() const { return is_suspended_.load(std::memory_order_acquire); }
  /// False where it is so already.
  bool suspend(bool suspended) { return is_suspended_.exchange(suspended) != suspended; }

  /// The order of its calls over several streams.
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
  std::atomic<std::uint64_t> calls_ = 0;
  std::atomic<bool> is_suspended_ = false;
  mutable std::mutex mutex_;
  std::string failure_text_;  // guarded by mutex_
  std::mutex ending_;         ///< held while the communicator leaves: nobody may ask it then
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tags_;  // of messages to and from each rank
  std::stop_source ending_soon_;
  device::Order order_;
};

}  // namespace ccoll::nccl
