// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's calls in CUDA streams: which are under way, and how they end. The call itself
/// is an operation like any other, on host memory to which the stream copies (gpu/staging.hpp).
/// Beside a device that makes the call (gpu/device_way.hpp), it is the barrier by which ranks find
/// whether all make the same. A collective takes its place among the communicator's others when it
/// is called, and begins when the stream has reached it. Messages, and calls of a graph, are called
/// when the stream has reached them.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/groups/self.hpp"
#include "comm/progress/operation.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/progress/progress.hpp"
#include "comm/streams/timed_mutex.hpp"
#include "core/result.hpp"
#include "gpu/device_way.hpp"
#include "gpu/staging.hpp"
#include "system/locks.hpp"

namespace ccoll {

/// Fails unless the memory is that device's, or the host's.
Status check_device_of(const void* data, int device);

using Operations = std::vector<std::shared_ptr<Operation>>;

/// A collective that a device has yet to make, or to end.
struct LeftOnDevice {
  const Operation* beside = nullptr;  ///< the host's operation beside it; null: that is over
  std::uint64_t number = 0;           ///< the call's sequence, once its host has done its part
  std::string standing;               ///< how far it has come, in words
};

class StreamCalls;

/// One call, or one that its graph repeats.
class StreamCall final : public device::StreamListener,
                         public std::enable_shared_from_this<StreamCall> {
 public:
  /// Begins the operations when the stream has reached the call.
  using Begin = std::function<Result<Operations>(Owned)>;

  /// `all`: the communicator's, which expire with it. `shown`: the operations of its Work; none if
  /// it is captured.
  StreamCall(std::weak_ptr<StreamCalls> all, std::shared_ptr<device::StreamOp> stream_op,
             Operations shown)
      : all_(std::move(all)), stream_op_(std::move(stream_op)), shown_(std::move(shown)) {}

  const Operations& shown() const { return shown_; }
  /// Must come before it is put into a stream.
  void begin_when_reached(Begin begin) { begin_ = std::move(begin); }
  /// For a device's call: how long it may take once the ranks' streams have reached it.
  void limit_device(std::chrono::milliseconds limit) { device_limit_ = limit; }
  /// Holds `token` until it has begun, so that others can tell that it has not
  /// (StreamCalls::messages_to_post).
  void stand_before_others(std::shared_ptr<const void> token) { stands_before_ = std::move(token); }
  /// Leaves it to its stream; nobody looks after it any more.
  void forsake() { stream_op_->forsake(); }

  void reached() noexcept override;
  void part_reached() noexcept override { ring(); }
  void passed() noexcept override;

  // owner: holder of the communicator's owner flag

  void begin(Owned owned);
  /// Notes that these are under way.
  void began(Owned owned, Operations operations);
  /// If all is done, lets the stream go on and returns true.
  bool settle(Owned owned);
  /// For a device's call that no callback reports: whether the stream has passed it since the last
  /// look; `trouble`: the error in its result. `self` is the communicator's.
  bool look_whether_passed(Owned owned, const Self& self, std::optional<Failure>& trouble);
  bool is_looked_at() const { return stream_op_->is_looked_at() && !has_passed_; }
  bool may_be_on_device() const {
    return stream_op_->is_made_by_device() && !has_passed_ && !stream_op_->passed();
  }
  /// Nothing if the device has ended it, or the host makes the call. It never waits.
  std::optional<LeftOnDevice> left_on_device() const;
  /// The host's outstanding part of a call that the device has made, or may have made.
  const Operations& left_behind() const;
  /// Ends with `failure`, unless its operations have ended before.
  void end_with(Owned owned, const Failure& failure);
  /// The same, but its Work ends now, whatever the stream does.
  void abandon(Owned owned, const Failure& failure);
  /// In a forked child: its Work ends with `failure`, and nothing else is touched.
  void end_copy(Owned owned, const Failure& failure);
  /// Whether nothing of it needs looking after any more.
  bool is_over(Owned owned) const;
  /// Asks CUDA about its stream. Ends a Work whose stream will not pass the call any more, or not
  /// soon.
  Status look(Owned owned, Clock::time_point now);

 private:
  enum class Stage : std::uint8_t {
    coming,     ///< the stream has not reached it
    under_way,  ///< operations are under way
    leaving,    ///< the stream may go on
  };
  /// Makes the thread that waits for the communicator look.
  void ring() const noexcept;
  /// Claims the end of the Work: true for the first caller only.
  bool begin_to_end() { return !ending_.exchange(true); }
  /// The host has done its part, or the stream has passed; after both, the call is over.
  void end_part();
  void end_shown();
  void end_unpassed();
  /// For a device's call whose host has done its part.
  Status look_at_time(Owned owned, Clock::time_point now);
  /// Ends it with `failure` once the stream has passed, or some time later.
  void give_up(Owned owned, const Failure& failure);
  bool is_done() const;
  /// Lets the stream go on.
  void leave(Owned owned);

  const std::weak_ptr<StreamCalls> all_;
  const std::shared_ptr<device::StreamOp> stream_op_;
  const Operations shown_;
  Begin begin_;                     // immutable once it is in a stream
  std::atomic<int> parts_left_{2};  ///< the host's and the stream's; see end_part()
  std::atomic<bool> ending_{false};

  // owner: holder of the owner flag
  Stage stage_ = Stage::coming;
  Operations operations_;
  std::shared_ptr<const void> stands_before_;    ///< set before it is in a stream
  bool gives_up_ = false;                        ///< it failed, and waits to be passed
  std::optional<Clock::time_point> give_up_at_;  ///< set by the first look after that
  bool has_passed_ = false;                      ///< the stream: a look has found it
  std::chrono::milliseconds device_limit_{0};    ///< set before it is in a stream
  /// Set once the host has done its part and the stream has reached the call.
  std::optional<Clock::time_point> device_deadline_;
  std::optional<std::uint64_t> number_;  ///< its sequence, set once the host has done its part

  friend class StreamCalls;
  std::shared_ptr<StreamCall> next_reached_;  // as StreamCalls::reached_, under its lock
};

/// Shows that this thread makes a call of the communicator: while it lives, no other thread makes
/// one, so that streams, their memory and the communicator see calls in one order.
class Submitting {
  friend class StreamCalls;
  explicit Submitting(std::mutex& submission) : lock_(submission) {}
  const std::lock_guard<std::mutex> lock_;
};

/// All stream calls of a communicator.
class StreamCalls {
 public:
  StreamCalls(const Self& self, Progress& progress) : self_(self), progress_(progress) {}
  StreamCalls(const StreamCalls&) = delete;
  StreamCalls& operator=(const StreamCalls&) = delete;
  ~StreamCalls();

  /// For that device, or for the one that it was first made for; made on first use.
  Result<device::Staging*> staging(int device);
  Result<std::shared_ptr<device::Staging>> shared_staging(int device);
  /// Nothing if there is none yet.
  std::optional<int> device() const;
  std::uint64_t held_bytes() const;
  /// Null if the host makes all calls.
  const std::shared_ptr<device::DeviceWay>& device_way() const { return way_; }
  /// Must come before any call.
  void take_way(std::shared_ptr<device::DeviceWay> way) {
    way_ = std::move(way);
    has_way_.store(way_ != nullptr, std::memory_order_release);
  }
  /// Ends all that devices make, on all ranks, with `failure`. Any thread may call it.
  void abort_device(const Failure& failure) const {
    if (has_way_.load(std::memory_order_acquire)) way_->abort(failure);
  }
  /// Held by each message that has no stream of the caller's and is not posted yet: later messages,
  /// wherever their buffers are, must not overtake it.
  const std::shared_ptr<const void>& messages_to_post() const { return messages_to_post_; }
  bool have_messages_to_post() const { return messages_to_post_.use_count() > 1; }
  /// Waits until no other thread makes a call.
  [[nodiscard]] Submitting submitting() { return Submitting(submission_); }
  /// Locked before it, and held beside it, while a call for devices is made. It stays locked while
  /// the caller waits for other ranks to make theirs, so that messages can still be sent. A call
  /// that a group has put off may hold it when the communicator ends.
  const std::shared_ptr<TimedMutex>& device_submission() { return device_submission_; }

  /// True from the first captured collective that hosts number: graphs may stand before a call in
  /// its stream, and their collectives come first.
  bool may_come_from_graphs() const { return may_come_from_graphs_.load(); }
  void come_from_graphs() { may_come_from_graphs_.store(true); }

  /// From a thread of CUDA: `call` is to begin. If the communicator has ended, the stream goes on.
  void reached(std::shared_ptr<StreamCall> call) noexcept;
  /// Makes the thread that waits for the communicator look. Any thread may call it.
  void ring() const noexcept;
  /// Whether streams have reached any that have yet to begin.
  bool has_reached() const { return has_reached_.load(); }
  /// In a forked child, which has none.
  void forked();

  // owner: holder of the owner flag

  bool busy(Owned /*owned*/) const { return !calls_.empty() || has_reached(); }
  /// Adds one that is not captured, before it is put into its stream.
  void add(Owned /*owned*/, std::shared_ptr<StreamCall> call) { calls_.push_back(std::move(call)); }
  /// True if anything moved. `trouble`: what a device's call has failed with.
  bool advance(Owned owned, std::optional<Failure>& trouble);
  /// Ends all unfinished ones with `failure`; their Works end once the streams have passed.
  void end_with(Owned owned, const Failure& failure);
  /// Ends their Works now. Streams go on past calls that they still reach, and nobody looks after
  /// those any more.
  void abandon(Owned owned, const Failure& failure);
  /// The hosts' outstanding parts of calls that devices have made, or may have made: other ranks
  /// wait for them.
  Operations left_behind(Owned owned) const;
  /// The calls that devices have not ended, in order, whether or not the hosts' parts are over.
  std::vector<LeftOnDevice> left_on_device(Owned owned) const;
  /// Ends all that devices make, on all ranks, with `failure`; `only_own`: only if a call of this
  /// rank is under way.
  void abort_device(Owned owned, const Failure& failure, bool only_own);
  /// In a forked child: ends the Works, and leaves alone all that is the parent's.
  void end_copy(Owned owned, const Failure& failure);
  /// Checks whether streams will ever pass; `next`: when to look again.
  Status supervise(Owned owned, Clock::time_point now, Clock::time_point& next);

 private:
  /// Takes those that streams have reached since; returns the first one.
  std::shared_ptr<StreamCall> take_reached();

  const Self& self_;
  Progress& progress_;
  const std::shared_ptr<const void> messages_to_post_ = std::make_shared<int>();
  std::mutex submission_;
  const std::shared_ptr<TimedMutex> device_submission_ = std::make_shared<TimedMutex>();
  Guarded<std::shared_ptr<device::Staging>> staging_;  ///< stays when it is there
  std::shared_ptr<device::DeviceWay> way_;             // immutable once there are calls
  std::atomic<bool> has_way_{false};                   // publishes way_ to threads that do not wait
  std::atomic<bool> may_come_from_graphs_{false};

  /// Those that streams have reached, in that order.
  struct Reached {
    std::shared_ptr<StreamCall> first;
    StreamCall* last = nullptr;
    bool are_abandoned = false;
  };
  Guarded<Reached> reached_;
  std::atomic<bool> has_reached_{false};  // whether there are any; spares the lock

  // owner: holder of the owner flag
  std::vector<std::shared_ptr<StreamCall>> calls_;
  std::optional<Clock::time_point> look_at_;  ///< when CUDA is asked next, while there are calls
};

}  // namespace ccoll
