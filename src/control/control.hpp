// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Control connections: how ranks find each other at start-up (through O(1) keys of the store) and
/// how news of a failure reaches everyone. One set per rank and job, shared by its communicators.
/// Independent of the links that carry data. Knows nothing of schedules or of the engine.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ccoll/store.hpp"
#include "core/result.hpp"
#include "core/signature.hpp"
#include "net/listener.hpp"
#include "net/peer_address.hpp"

namespace ccoll {

/// A call that has waited long enough to say so.
struct Waiting {
  std::uint64_t communicator = 0;
  std::uint64_t sequence = 0;
  Signature signature;
  /// What the signature cannot say, in words; kMaxNote bytes travel.
  std::string note = {};
};
inline constexpr std::size_t kMaxNote = 1024;
inline constexpr std::size_t kMaxTold = 3072;

/// The signature's `kind` of a question that follows who waits for whom, beside those of calls.
inline constexpr std::uint8_t kCycle = 250;
/// And of the question what the caller calls the call with that number, and of its answer.
inline constexpr std::uint8_t kAsksLabel = 249;
inline constexpr std::uint8_t kTellsLabel = 248;
/// And of the question where a rank stands in the call with that number, and of its answer.
inline constexpr std::uint8_t kAsksStand = 245;
inline constexpr std::uint8_t kTellsStand = 244;
/// And of the word that a rank has closed the communicator, and of its answer.
inline constexpr std::uint8_t kCloses = 242;
inline constexpr std::uint8_t kHeardClose = 241;
/// And of rank 0's word that all have closed it.
inline constexpr std::uint8_t kAllClosed = 240;

/// What this rank waits in, and for which ranks of the job.
struct OpenWait {
  std::uint64_t communicator = 0;
  std::uint64_t sequence = 0;  ///< of the call; from kFirstMessage on those of messages
  std::string text;
  std::vector<std::uint32_t> ranks;
};
inline constexpr std::uint64_t kFirstMessage = std::uint64_t{1} << 63;

/// The communicator number that stands for all of them.
inline constexpr std::uint64_t kEveryCommunicator = ~std::uint64_t{0};

/// The number of a roll call without some ranks, by a hash of which, after `count` of these.
constexpr std::uint64_t roll_call_without(std::uint64_t excluded, std::uint64_t count) {
  return (excluded + count) | std::uint64_t{1} << 63;
}
/// Whether it is one; others of a communicator come one after the other.
constexpr bool is_without_some(std::uint64_t number) { return number >> 63 != 0; }

/// The ranks of a communicator agree on who of them is gone.
struct RollCall {
  std::uint64_t communicator = 0;
  std::uint64_t number = 0;          ///< so many of this communicator have come to their end
  std::uint32_t attempt = 0;         ///< so many times this rank gave this one up
  std::vector<std::uint32_t> ranks;  ///< of the job; all of the communicator, this one, too
};

/// What a thread that waits for a roll call sees of the service thread.
struct Headcount {
  std::mutex mutex;
  std::condition_variable changed;
  /// guarded by mutex: those that are gone, ascending, by ranks of the job; set once
  std::optional<Result<std::vector<std::uint32_t>>> gone;
  /// guarded by mutex: whose word is missing for that
  std::vector<std::uint32_t> awaited;
};

/// A communicator's ear. Called on the service thread; must not block.
class ControlObserver {
 public:
  virtual ~ControlObserver() = default;
  /// News that ends every call of this communicator; `failure.culprit` is a rank of the job. May
  /// come more than once; the first counts. `communicator` is the observer's, or
  /// kEveryCommunicator.
  virtual void failed(std::uint64_t communicator, const Failure& failure) = 0;
  /// Rank `rank` said goodbye: what it sent is still delivered, but nothing more will come.
  virtual void left(std::uint32_t rank) = 0;
  /// The same of a rank that ended, or fell silent, without a goodbye; `failure` says how that
  /// showed. Told to every observer, also of communicators without that rank. Where the others have
  /// counted out this rank itself, it is told so of itself.
  virtual void lost(std::uint32_t rank, const Failure& failure) = 0;
  /// Rank `peer` of the job waits in that call: the failure to tell everyone, if this rank's call
  /// with that sequence number was another one. The observer remembers what is yet to be compared.
  virtual std::optional<Failure> compare(std::uint32_t peer, const Waiting& waiting) = 0;
  /// Whether this rank has come to that call.
  virtual bool has_begun(std::uint64_t sequence) = 0;
  /// It waits in that call, and `cycle` says for whom, who in turn waits for this rank.
  virtual void in_cycle(std::uint64_t sequence, const std::string& cycle) = 0;
};

class Control {
 public:
  struct Membership {
    std::uint32_t rank = 0;
    std::uint32_t size = 1;
    PeerAddress address;  ///< of this rank, with the port of its listener
    net::Credentials credentials = "";
    std::chrono::milliseconds timeout{60000};  ///< of join
    /// Once joined, a connected peer from whom nothing has come for so long is lost; 0: never.
    std::chrono::milliseconds heartbeat{0};
    /// Rank 0's is told to everyone; of others none is looked at. At most kMaxTold bytes.
    std::string told = {};
    /// As the launcher says it, each rank of the job is one process: another one that claims to be
    /// a rank while that is there is of another job, or of another start of this one. Not so where
    /// a program makes groups of its own at a store, one after the other.
    bool is_whole_job = false;
  };

  static std::shared_ptr<Control> make(std::shared_ptr<net::Service> service,
                                       const Membership& membership);
  /// For a rank on host `host` (PeerAddress::host) that has begun a start-up and cannot take part:
  /// tells those who wait for it. They hear of it through the store.
  static void decline(Store& store, std::uint32_t rank, std::uint64_t host,
                      std::chrono::steady_clock::time_point began, const Failure& why);
  virtual ~Control() = default;

  /// A connection that came to this rank's listener for Purpose::control; on the service thread,
  /// also before join is called.
  virtual void accept(net::Stream stream) = 0;

  /// Meets the other ranks through `store` and returns when the table is complete and the control
  /// connections (a binary tree over the ranks, and both ring neighbours) stand. Collective; on a
  /// caller's thread. Keys in the store: O(1) per rank; control messages: O(log n) per rank.
  /// A failure names the ranks that did not come, as far as they are known.
  /// The store may hold what earlier start-ups left there, of any size, their ranks dead or alive,
  /// joined or gone; each rank takes part in the start-ups at one store one after the other.
  /// The thread's patience (core/patience.hpp) counts.
  virtual Status join(Store& store) = 0;

  /// By rank; complete once join has succeeded.
  virtual const std::vector<PeerAddress>& table() const = 0;
  /// What rank 0 tells everyone; known once join has succeeded.
  virtual const std::string& told() const = 0;
  /// A number that all ranks of this start-up agree on and no other start-up has, however often
  /// ranks meet at the same store; known once join has succeeded.
  virtual std::uint64_t job() const = 0;

  /// `observer` is told what concerns `communicator` until it is gone or unsubscribed. What came
  /// before it subscribed is told at once.
  virtual void subscribe(std::uint64_t communicator, std::weak_ptr<ControlObserver> observer) = 0;
  /// For good: in roll calls of this communicator the rank counts as gone from now on.
  virtual void unsubscribe(std::uint64_t communicator) = 0;
  /// Returns when what this rank's threads asked for before is done, and what had come by then
  /// told; after 2 s at the latest. Not on the service thread.
  virtual void settle() = 0;

  /// Tells every rank that has not left (this one's observer too) that `communicator` has failed.
  /// Returns at once. Ranks that have left leave no gap: who was connected through them connects
  /// anew, and hears then what it missed.
  virtual void flood(std::uint64_t communicator, const Failure& failure) = 0;
  /// Tells `ranks` of the job, whose observers compare: along the tree where this rank holds no
  /// connection to one, O(log n) hops, and by more where ranks on the way have gone. Returns at
  /// once.
  virtual void publish(const Waiting& waiting, const std::vector<std::uint32_t>& ranks) = 0;
  /// All that this rank waits in, in that communicator, in place of what it told before.
  virtual void tell_waits(std::uint64_t communicator, std::vector<OpenWait> waits) = 0;
  /// Finds out whether those whom this rank waits for in that call wait for it in turn: the
  /// observer is told, soon, if so. Returns at once.
  virtual void seek_cycle(std::uint64_t communicator, std::uint64_t sequence) = 0;
  /// This rank waits for `ranks` of the job and has never had a connection to them. Those that take
  /// part no more are made known to everyone, within some 1 s, as having left; a goodbye is lost
  /// where those who read it leave before they can pass it on. Returns at once.
  virtual void probe(const std::vector<std::uint32_t>& ranks) = 0;
  /// This rank takes part in that roll call, which ends, as `count` then has it, when all ranks
  /// that are not gone take part: for all who do not count each other as gone with the same
  /// ranks. Gone is who was lost, has left, or has unsubscribed. For a rank that itself counts
  /// as gone, and where another gives up, it is a failure. Where it has ended well already, `count`
  /// has what it ended with. Returns at once.
  virtual void call_roll(const RollCall& call, std::shared_ptr<Headcount> count) = 0;
  /// Ends it for this rank, if it has not ended, and for all who wait in this attempt or an earlier
  /// one, or come to it later. Returns at once.
  virtual void give_up(const RollCall& call, const Failure& why) = 0;
  /// Whether this rank has heard that `communicator` failed. Called by observers, on the service
  /// thread.
  virtual bool has_failed(std::uint64_t communicator) const = 0;
  /// This rank is done: everyone hears that it left, and its connections closing is no failure from
  /// now on. What was flooded before still gets out. On the service thread it returns at once, the
  /// goodbye handed to the sockets; elsewhere when the peers have read it, or after 1 s.
  virtual void leave() = 0;

  struct Statistics {
    std::uint64_t opened = 0;    ///< control connections that this rank opened
    std::uint64_t sent = 0;      ///< messages on control connections, heartbeats not counted
    std::uint64_t received = 0;  ///< the same, whole and well-formed
    std::uint64_t refused = 0;   ///< connections that were not one of this job's
  };
  virtual Statistics statistics() const = 0;
};

}  // namespace ccoll
