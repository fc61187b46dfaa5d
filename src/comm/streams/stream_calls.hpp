// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's calls in CUDA's streams: what is under way of them, and how they end. The call
/// itself is an operation like any other: on memory of the host to which the stream copies
/// (gpu/staging.hpp) or, beside a device that makes the call
/// (gpu/device_way.hpp), the barrier by which ranks find whether all make the same. A
/// collective takes its place among the communicator's others when it is called, and begins when
/// the stream has come to it; messages, and what is part of a graph, are called when the stream has
/// come to them.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/progress/operation.hpp"
#include "core/result.hpp"
#include "gpu/device_way.hpp"
#include "gpu/staging.hpp"
#include "system/timed_mutex.hpp"

namespace ccoll {

/// That the memory is of that device, or of the host.
Status check_device_of(const void* data, int device);

using Operations = std::vector<std::shared_ptr<Operation>>;

/// A collective that a device has yet to make, or to end.
struct LeftOnDevice {
  const Operation* beside = nullptr;  ///< what the host does beside it; null: that is over
  std::uint64_t number = 0;           ///< of one whose host has done its part
  std::string standing;               ///< in words
};

/// One call, or one that its graph makes again and again.
class StreamCall final : public device::StreamListener,
                         public std::enable_shared_from_this<StreamCall> {
 public:
  /// What is begun when the stream has come to it.
  using Begin = std::function<Result<Operations>(Communicator::Implementation&)>;

  /// `shown`: what its Work has; of a captured one nothing.
  StreamCall(std::weak_ptr<Communicator::Implementation> communicator,
             std::shared_ptr<device::StreamOp> stream_op, Operations shown)
      : communicator_(std::move(communicator)),
        stream_op_(std::move(stream_op)),
        shown_(std::move(shown)) {}

  const Operations& shown() const { return shown_; }
  /// Before it is put into a stream.
  void begin_when_reached(Begin begin) { begin_ = std::move(begin); }
  /// Of one that a device makes: how long that may take once the ranks' streams have come to it.
  void limit_device(std::chrono::milliseconds limit) { device_limit_ = limit; }
  /// Holds `who` until it has begun.
  void stand_before_others(std::shared_ptr<const void> who) { stands_before_ = std::move(who); }
  /// Nobody looks after it any more.
  void forsake() { stream_op_->forsake(); }

  void reached() noexcept override;
  void part_reached() noexcept override { ring(); }
  void passed() noexcept override;

  // owner: holder of the communicator's owner flag

  void begin_as_owner(Communicator::Implementation& communicator);
  /// These are under way.
  void began_as_owner(Operations operations);
  /// Lets the stream go on if all is done; true if so.
  bool settle_as_owner();
  /// Of one that a device makes and nobody tells of: whether the stream has passed it since the
  /// last look; `trouble`: what is wrong with what it has made.
  bool look_whether_passed_as_owner(const Communicator::Implementation& communicator,
                                    std::optional<Failure>& trouble);
  bool is_looked_at() const { return stream_op_->is_looked_at() && !has_passed_; }
  bool may_be_on_device() const {
    return stream_op_->is_made_by_device() && !has_passed_ && !stream_op_->passed();
  }
  /// Nothing where that is over, or the host makes the call. Waits for nothing.
  std::optional<LeftOnDevice> left_on_device() const;
  /// What its host has yet to do though the device has made it, or may have.
  const Operations& left_behind() const;
  /// Ends with `failure`, unless its operations have ended before.
  void fail_as_owner(const Failure& failure);
  /// The same, and its Work ends now, whatever the stream does.
  void abandon_as_owner(const Failure& failure);
  /// In a forked child: its Work ends with `failure`, and nothing else is touched.
  void end_copy_as_owner(const Failure& failure);
  /// Whether nothing of it is to be looked after any more.
  bool is_over_as_owner() const;
  /// What CUDA says of its stream. A Work for which the stream will not, or not soon, pass any more
  /// ends.
  Status look_as_owner(Clock::time_point now);

 private:
  enum class Stage : std::uint8_t {
    coming,     ///< the stream has yet to come to it
    under_way,  ///< operations are
    leaving,    ///< the stream may go on
  };
  /// Who waits for the communicator looks.
  void ring() const noexcept;
  /// The Work is over: once, whoever finds it so.
  bool begin_to_end() { return !ending_.exchange(true); }
  /// The host has done its part, or the stream has passed: with both it is over.
  void end_part();
  void end_shown();
  void end_unpassed();
  /// Of what a device makes, and the host has done its part of.
  Status look_at_time_as_owner(Clock::time_point now);
  /// It ends with `failure` once the stream has passed, or some time later.
  void give_up_as_owner(const Failure& failure);
  bool is_done() const;
  /// The stream may go on.
  void leave_as_owner();

  const std::weak_ptr<Communicator::Implementation> communicator_;
  const std::shared_ptr<device::StreamOp> stream_op_;
  const Operations shown_;
  Begin begin_;  // immutable once it is in a stream
  std::atomic<int> parts_left_{2};
  std::atomic<bool> ending_{false};

  // owner: holder of the owner flag
  Stage stage_ = Stage::coming;
  Operations operations_;
  std::shared_ptr<const void> stands_before_;    ///< set before it is in a stream
  std::optional<Clock::time_point> give_up_at_;  ///< of one that has failed: waiting to be passed
  bool has_passed_ = false;                      ///< of one that is looked at
  std::chrono::milliseconds device_limit_{0};    ///< set before it is in a stream
  /// Once the host has done its part of it, and the stream has come to it.
  std::optional<Clock::time_point> device_deadline_;
  std::optional<std::uint64_t> number_;  ///< once the host has done its part of it

  friend class StreamCalls;
  std::shared_ptr<StreamCall> next_reached_;  // guarded by StreamCalls::reached_mutex_
};

/// All of a communicator.
class StreamCalls {
 public:
  /// For a communicator of so many ranks; `staging_bytes` as in DeviceOptions.
  StreamCalls(std::uint32_t ranks, std::size_t staging_bytes)
      : ranks_(ranks), device_memory_(staging_bytes) {}
  StreamCalls(const StreamCalls&) = delete;
  StreamCalls& operator=(const StreamCalls&) = delete;
  ~StreamCalls();

  /// Of that device, or of the one that it was first made for; made when it is first needed.
  Result<device::Staging*> staging(int device);
  Result<std::shared_ptr<device::Staging>> shared_staging(int device);
  /// Nothing: there is none yet.
  std::optional<int> device() const;
  std::uint64_t held_bytes() const;
  /// Null: the host makes all calls.
  const std::shared_ptr<device::DeviceWay>& device_way() const { return way_; }
  /// While nobody calls yet.
  void take_way(std::shared_ptr<device::DeviceWay> way) {
    way_ = std::move(way);
    has_way_.store(way_ != nullptr, std::memory_order_release);
  }
  /// Whatever devices make ends, on all ranks, with `failure`. Any thread may call.
  void abort_device(const Failure& failure) const {
    if (has_way_.load(std::memory_order_acquire)) way_->abort(failure);
  }
  /// Held by each message without a stream of the caller's that is yet to be posted: those that are
  /// called later, wherever their buffers are, do not overtake it.
  const std::shared_ptr<const void>& messages_to_post() const { return messages_to_post_; }
  bool have_messages_to_post() const { return messages_to_post_.use_count() > 1; }
  /// Held by who makes a call, so that streams, their memory and the communicator have calls in one
  /// order.
  std::mutex& submission() { return submission_; }
  /// Held beside it, and before, by who makes a call that devices make: also while it waits for
  /// other ranks to make theirs, so that messages can still be sent. A call that a group has put
  /// off may hold it when the communicator ends.
  const std::shared_ptr<TimedMutex>& device_submission() { return device_submission_; }

  /// From the first captured collective on that hosts number: in a stream graphs may stand before
  /// a call, whose collectives come before it.
  bool may_come_from_graphs() const { return may_come_from_graphs_.load(); }
  void come_from_graphs() { may_come_from_graphs_.store(true); }

  /// From a thread of CUDA: `call` is to begin. Its stream goes on where the communicator has
  /// ended.
  void reached(std::shared_ptr<StreamCall> call) noexcept;
  /// Whether any have come that are yet to begin.
  bool has_reached() const { return has_reached_.load(); }
  /// In a forked child, which has none.
  void forked();

  // owner: holder of the owner flag

  bool busy_as_owner() const { return !calls_.empty() || has_reached(); }
  /// One that is not captured; before it is put into its stream.
  void add_as_owner(std::shared_ptr<StreamCall> call) { calls_.push_back(std::move(call)); }
  /// True if anything moved.
  bool advance_as_owner(Communicator::Implementation& communicator);
  /// All that are not over end with `failure`, their Works once the streams have passed.
  void fail_as_owner(const Failure& failure);
  /// Their Works end now, and whatever streams still come to goes on: nobody looks after it any
  /// more.
  void abandon_as_owner(const Failure& failure);
  /// What hosts have yet to do of calls that devices have made, or may have: other ranks wait for
  /// it.
  Operations left_behind_as_owner() const;
  /// The other way round, and of what neither has ended, in the order of the calls.
  std::vector<LeftOnDevice> left_on_device_as_owner() const;
  /// Whatever devices make ends, on all ranks, with `failure`; `only_own`: if any of this rank is
  /// under way.
  void abort_device_as_owner(const Failure& failure, bool only_own);
  /// In a forked child: Works end, and all that is the parent's stays as it is.
  void end_copy_as_owner(const Failure& failure);
  /// Looks whether streams will ever pass; `next`: when to look again.
  Status supervise_as_owner(Clock::time_point now, Clock::time_point& next);

 private:
  /// Those that streams have come to since, the first one.
  std::shared_ptr<StreamCall> take_reached();

  const std::uint32_t ranks_;
  const std::size_t device_memory_;
  const std::shared_ptr<const void> messages_to_post_ = std::make_shared<int>();
  std::mutex submission_;
  const std::shared_ptr<TimedMutex> device_submission_ = std::make_shared<TimedMutex>();
  mutable std::mutex making_;
  std::shared_ptr<device::Staging> staging_;  // guarded by making_; stays when it is there
  std::shared_ptr<device::DeviceWay> way_;    // immutable once there are calls
  std::atomic<bool> has_way_{false};          // publishes way_ to who does not wait for that
  std::atomic<bool> may_come_from_graphs_{false};

  std::mutex reached_mutex_;
  std::shared_ptr<StreamCall> first_reached_;  // guarded by reached_mutex_
  StreamCall* last_reached_ = nullptr;         // guarded by reached_mutex_
  bool abandoned_ = false;                     // guarded by reached_mutex_
  std::atomic<bool> has_reached_{false};       // whether there are any; spares the lock

  // owner: holder of the owner flag
  std::vector<std::shared_ptr<StreamCall>> calls_;
  std::optional<Clock::time_point> look_at_;  ///< when CUDA is asked next, while there are calls
};

}  // namespace ccoll
