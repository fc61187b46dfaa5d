// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Moving a communicator's operations on: done by the threads that wait for calls, those that ask
/// whether calls are over, and the service thread for calls that nobody waits for.

#include <asio/io_context.hpp>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "comm/progress/operation.hpp"
#include "comm/progress/turns.hpp"
#include "core/deadline.hpp"
#include "core/result.hpp"
#include "schedule/problem.hpp"
#include "transport/waiter.hpp"

namespace ccoll {

class Background;

class Progress {
 public:
  /// The operations that are moved on. Progress knows nothing else of them.
  class Operations {
   public:
    virtual bool busy(Owned owned) const = 0;
    /// Makes one round over all of them; true if anything moved. The last round before a sleep
    /// attends to every rank. An exception ends all operations, because callers must not free
    /// buffers that an operation still uses.
    virtual bool advance(Owned owned, Attention attention) = 0;
    /// Looks at time limits and at the ranks waited for; returns when to look again.
    virtual Clock::time_point supervise(Owned owned, Clock::time_point now) = 0;
    /// The ranks that a thread waiting for `work` waits for at present; from receives, only named
    /// ranks. A rank may be listed twice.
    virtual std::vector<Rank> awaited(Owned owned, const Work::State& work) const noexcept = 0;
    /// Such a thread has slept.
    virtual void slept(Owned owned, std::vector<Rank> awaited, Clock::duration time) noexcept = 0;
    /// Whether a stream has reached a call that nobody has begun.
    virtual bool has_reached() const = 0;
    /// Fails if the holder of the owner flag waits for this thread, which may not wait for it.
    virtual Status may_wait() const = 0;
    /// Ends all operations, on all ranks: a turn of the service thread threw.
    virtual void threw(Owned owned, const Failure& failure) = 0;

   protected:
    ~Operations() = default;
  };
  /// How this rank's threads share the machine's cores with the others.
  struct Cores {
    bool are_oversubscribed = false;  ///< ranks outnumber cores
    bool are_filled = false;          ///< each rank has a core, and few have a second one
  };

  /// `now`: the communicator's clock, for its time limits. Threads sleep by the Clock itself.
  Progress(Operations& operations, std::shared_ptr<Waiter> waiter, Now now);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From here on the service thread, which runs `context`, makes progress, too. `self` is this
  /// object; it is held while the service thread uses it.
  void start(asio::io_context& context, const std::shared_ptr<Progress>& self, Cores cores);
  /// No turn of the service thread begins after this. Any thread may call it.
  void stop();
  /// For what needs progress later. It expires with the communicator; empty before start().
  const std::weak_ptr<Progress>& weak() const { return this_; }
  /// The same for another part of the communicator.
  template <typename Part>
  std::weak_ptr<Part> weak(Part& part) const {
    return std::shared_ptr<Part>(this_.lock(), &part);
  }

  // For threads that do not hold the owner flag:

  std::optional<Owned> try_own() { return turns_.try_own(); }
  /// Waits for the flag. Throws if this thread may not wait.
  Owned wait_to_own();
  /// Fails if this thread, or the one that waits for it, holds the flag: the wait would never end.
  Status may_wait() const;
  /// Makes one round, unless another thread is making it.
  void poll();
  Clock::time_point now() const { return now_(); }
  /// Lets the service thread begin calls that streams have reached.
  void schedule();
  /// In a forked child, whose other threads are gone.
  void forked() {
    forked_.store(true);
    turns_.forget();
  }
  /// The links and files of this copy are the parent's.
  bool is_forked() const { return forked_.load(std::memory_order_relaxed); }

  // For the holder of the flag:

  void disown(Owned owned) { turns_.disown(owned); }
  /// Something has begun.
  void begin(Owned /*owned*/) {
    turns_.begin();
    is_settled_ = false;
  }
  /// Something has moved in a round.
  void move(Owned /*owned*/) {
    turns_.move();
    is_settled_ = false;
  }
  /// The owner is awake: from here on peers do not wake the service thread.
  void awake(Owned /*owned*/) {
    waiter_->awake();
    is_settled_ = false;
  }
  /// From here on streams may reach calls that nobody has begun.
  void watch_streams(Owned /*owned*/) { watches_streams_ = true; }
  /// Makes one round for an owner that leaves what it has begun to others.
  void round(Owned owned) {
    operations_.advance(owned, Attention::awaited);
    settle(owned);
  }
  /// For an owner that leaves operations under way which it has begun or moved: makes a round to
  /// find out whether the service thread may sleep on. Then give_back() does not wake it.
  void settle(Owned owned);
  /// The service thread, which has the flag, falls asleep: peers and its timer wake it.
  void background_sleeps(Owned /*owned*/) { is_settled_ = true; }
  /// Releases the flag; the service thread goes on with what is under way. `operations` are this
  /// object's, or answer like them: where a final class is known, no virtual function is called.
  template <typename Known>
  void give_back(Owned owned, const Known& operations) {
    if (operations.busy(owned)) return leave_to_background(owned);
    if (watches_streams_) [[unlikely]]
      return disown_beside_streams(owned);
    // Another thread may end the communicator once the flag is free: nothing may follow.
    disown(owned);
  }
  /// Whether a thread waits for the flag: a waiting owner then lets it in.
  bool is_wanted() const { return turns_.is_wanted(); }
  /// Makes progress until all are done or `limit` has passed; false in the latter case.
  bool wait(Owned owned, const Work::State& work, Clock::time_point limit);
  /// The rest of a blocking call: waits until it is over, if it has begun, and returns it.
  Result<std::shared_ptr<Work::State>> finish(Owned owned,
                                              Result<std::shared_ptr<Work::State>> begun);

  Operations& operations() { return operations_; }
  const Operations& operations() const { return operations_; }
  Turns& turns(Owned /*owned*/) { return turns_; }
  Waiter& waiter() { return *waiter_; }
  const Cores& cores() const { return cores_; }

 private:
  void leave_to_background(Owned owned);
  void disown_beside_streams(Owned owned);
  void sleep(Owned owned, const Work::State& work, Clock::time_point now, Clock::time_point until);

  Operations& operations_;
  const std::shared_ptr<Waiter> waiter_;
  Turns turns_;                             ///< by its own remarks
  Cores cores_;                             // immutable after start
  std::shared_ptr<Background> background_;  // immutable after start
  std::weak_ptr<Progress> this_;            // immutable after start
  const Now now_;
  /// Nothing under way can go on before the service thread, which sleeps, wakes by itself.
  bool is_settled_ = false;  // owner: holder of the owner flag
  bool watches_streams_ = false;  // owner: holder of the owner flag
  std::atomic<bool> forked_{false};
};

}  // namespace ccoll
