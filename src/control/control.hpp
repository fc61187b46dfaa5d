// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Control connections: ranks find each other through them at start-up (with O(1) keys of the
/// store), and news of failures spread. Each rank has one set per job, shared by its communicators.
/// Independent of the links that carry data, of schedules and of the engine.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ccoll/store.hpp"
#include "core/deadline.hpp"
#include "core/result.hpp"
#include "core/signature.hpp"
#include "net/listener.hpp"
#include "net/peer_address.hpp"
#include "system/locks.hpp"

namespace ccoll {

/// A call that has waited so long that this rank publishes it.
struct Waiting {
  std::uint64_t communicator = 0;
  std::uint64_t sequence = 0;
  Signature signature;
  /// The parts that the signature cannot hold, in words; at most kMaxNote bytes are sent.
  std::string note = {};
};
inline constexpr std::size_t kMaxNote = 1024;
inline constexpr std::size_t kMaxRank0Text = 3072;

/// The signature's `kind` of a question that follows ranks' waits; unlike those of calls.
inline constexpr std::uint8_t kCycle = 250;
/// The `kind` of a question for a rank's label of the call with that number; of its answer.
inline constexpr std::uint8_t kAsksLabel = 249;
inline constexpr std::uint8_t kTellsLabel = 248;
/// The `kind` of a question for a rank's position in the call with that number; of its answer.
inline constexpr std::uint8_t kAsksStand = 245;
inline constexpr std::uint8_t kTellsStand = 244;
/// The `kind` of the word that a rank has closed the communicator; of its answer.
inline constexpr std::uint8_t kCloses = 242;
inline constexpr std::uint8_t kHeardClose = 241;
/// The `kind` of rank 0's word that all have closed it.
inline constexpr std::uint8_t kAllClosed = 240;
/// The `kind` that asks whether a rank has left the communicator, and the one that says so. A rank
/// that is still there, or has yet to make it, does not answer.
inline constexpr std::uint8_t kAsksClosed = 246;
inline constexpr std::uint8_t kHasClosed = 239;

/// A call or message in which this rank waits, and the ranks of the job for which it waits.
struct OpenWait {
  std::uint64_t communicator = 0;
  std::uint64_t sequence = 0;  ///< of the call; from kFirstMessage on, of a message
  std::string text;
  std::vector<std::uint32_t> ranks;
};
inline constexpr std::uint64_t kFirstMessage = std::uint64_t{1} << 63;

/// The communicator number that stands for all of them.
inline constexpr std::uint64_t kEveryCommunicator = ~std::uint64_t{0};

/// Number of a roll call that leaves some ranks out: a hash of these, after `count` such calls.
constexpr std::uint64_t roll_call_without(std::uint64_t excluded, std::uint64_t count) {
  return (excluded + count) | std::uint64_t{1} << 63;
}
/// Whether it is such a number; a communicator's other roll calls are numbered in sequence.
constexpr bool is_without_some(std::uint64_t number) { return number >> 63 != 0; }

/// A roll call: the ranks of a communicator agree on which of them are gone.
struct RollCall {
  std::uint64_t communicator = 0;
  std::uint64_t number = 0;          ///< roll calls of this communicator that have ended
  std::uint32_t attempt = 0;         ///< times that this rank has given this one up
  std::vector<std::uint32_t> ranks;  ///< of the job: all of the communicator, with this one
};

/// State shared by the service thread and a thread that waits for a roll call.
struct Headcount {
  struct State {
    /// The ranks of the job that are gone, ascending; set once.
    std::optional<Result<std::vector<std::uint32_t>>> gone;
    /// The ranks whose word is missing for that.
    std::vector<std::uint32_t> awaited;
  };
  Guarded<State> state;
  std::condition_variable changed;  ///< the state has
};

/// Receives a communicator's news. Called on the service thread; must not block.
class ControlObserver {
 public:
  virtual ~ControlObserver() = default;
  /// News that ends every call of this communicator; `failure.culprit` is a rank of the job. May
  /// come more than once; the first counts. `communicator` is the observer's, or
  /// kEveryCommunicator.
  virtual void failed(std::uint64_t communicator, const Failure& failure) = 0;
  /// Rank `rank` said goodbye: what it sent is still delivered, but nothing more will come.
  virtual void left(std::uint32_t rank) = 0;
  /// The same for a rank that ended or fell silent without a goodbye; `failure` says how that
  /// showed. Every observer hears it, also those of communicators without that rank. If the others
  /// count this rank as lost, its own observers hear that, too.
  virtual void lost(std::uint32_t rank, const Failure& failure) = 0;
  /// Rank `peer` of the job waits in that call. Returns a failure for everyone if this rank's call
  /// with that sequence number differs. The observer remembers calls that it cannot compare yet.
  virtual std::optional<Failure> compare(std::uint32_t peer, const Waiting& waiting) = 0;
  /// Whether this rank has begun that call.
  virtual bool has_begun(std::uint64_t sequence) = 0;
  /// This rank waits in that call in a cycle; `cycle` says for which rank each one waits.
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
    /// Once joined, a connected peer that sends nothing for this long counts as lost; 0: never.
    std::chrono::milliseconds heartbeat{0};
    /// Rank 0's text is sent to everyone; other ranks' texts are ignored. At most kMaxRank0Text
    /// bytes.
    std::string rank0_text = {};
    /// The launcher has started one process per rank. Then a second process that claims the same
    /// rank belongs to another job, or to another start of this one. False if a program forms
    /// groups of its own at a store, one after the other.
    bool is_whole_job = false;
    Now now = &Clock::now;  ///< the clock for its time limits
  };

  static std::shared_ptr<Control> make(std::shared_ptr<net::Service> service,
                                       const Membership& membership);
  /// For a rank on host `host` (PeerAddress::host) that has begun a start-up and cannot take part:
  /// says so, through the store, to the ranks that wait for it.
  static void decline(Store& store, std::uint32_t rank, std::uint64_t host, Clock::time_point began,
                      const Failure& why);
  virtual ~Control() = default;

  /// Takes a connection for Purpose::control from this rank's listener; on the service thread, also
  /// before join is called.
  virtual void accept(net::Stream stream) = 0;

  /// Meets the other ranks through `store`. Returns when the table is complete and the control
  /// connections (a binary tree over the ranks, and both ring neighbours) are up. Collective; on a
  /// caller's thread. Keys in the store: O(1) per rank; control messages: O(log n) per rank. A
  /// failure names the ranks that did not come, as far as they are known. The store may hold keys
  /// of earlier start-ups of any size, whatever became of their ranks. Each rank takes part in the
  /// start-ups at one store one after the other. The thread's patience (core/patience.hpp) counts.
  virtual Status join(Store& store) = 0;

  /// By rank; complete once join has succeeded.
  virtual const std::vector<PeerAddress>& table() const = 0;
  /// Rank 0's text for everyone; known once join has succeeded.
  virtual const std::string& rank0_text() const = 0;
  /// A number that all ranks of this start-up agree on and no other start-up has, however often
  /// ranks meet at the same store; known once join has succeeded.
  virtual std::uint64_t job() const = 0;

  /// Passes news that concern `communicator` to `observer` until it is gone or unsubscribed;
  /// earlier news come at once.
  virtual void subscribe(std::uint64_t communicator, std::weak_ptr<ControlObserver> observer) = 0;
  /// Final: in roll calls of this communicator this rank counts as gone from here on.
  virtual void unsubscribe(std::uint64_t communicator) = 0;
  /// Waits until earlier requests of this rank's threads are done, and the observers have the news
  /// that had come by then; 2 s at most. Not on the service thread.
  virtual void settle() = 0;

  /// Announces to every rank that has not left (to this one's observer too) that `communicator` has
  /// failed. Returns at once. Ranks that have left make no gap: ranks that were connected through
  /// them reconnect, and then hear what they missed.
  virtual void flood(std::uint64_t communicator, const Failure& failure) = 0;
  /// Sends it to `ranks` of the job, whose observers compare. If this rank has no connection to one
  /// of them, the message goes along the tree: O(log n) hops, more if ranks on the way have gone.
  /// Returns at once.
  virtual void publish(const Waiting& waiting, const std::vector<std::uint32_t>& ranks) = 0;
  /// Replaces the calls and messages of that communicator in which this rank waits.
  virtual void tell_waits(std::uint64_t communicator, std::vector<OpenWait> waits) = 0;
  /// Finds out whether the ranks for which this rank waits in that call wait for it in turn. If so,
  /// the observer hears it soon. Returns at once.
  virtual void seek_cycle(std::uint64_t communicator, std::uint64_t sequence) = 0;
  /// This rank waits for `ranks` of the job and has never had a connection to them. Those that have
  /// gone are announced to everyone as having left, within about 1 s: a goodbye is lost if its
  /// readers leave before they can pass it on. Returns at once.
  virtual void probe(const std::vector<std::uint32_t>& ranks) = 0;
  /// Takes part in that roll call, which ends when all ranks that are not gone take part. Ranks
  /// that do not count each other as gone get the same list in `count`. A rank is gone if it was
  /// lost, left, or unsubscribed. The call fails for a rank that counts as gone itself, or if
  /// another gives up. If it has already ended well, `count` gets that result. Returns at once.
  virtual void call_roll(const RollCall& call, std::shared_ptr<Headcount> count) = 0;
  /// Ends it for this rank, if it has not ended, and for all ranks in this attempt or an earlier
  /// one, even if they come to it later. Returns at once.
  virtual void give_up(const RollCall& call, const Failure& why) = 0;
  /// Whether this rank has heard that `communicator` failed. Called by observers, on the service
  /// thread.
  virtual bool has_failed(std::uint64_t communicator) const = 0;
  /// Announces to everyone that this rank has left, so that its connections may close without a
  /// failure. Earlier floods still get out. On the service thread it returns once the sockets have
  /// the goodbye; elsewhere once the peers have read it, or after 1 s.
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
