// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Messages between two ranks of a communicator: the protocol, and the state of every send, receive
/// and probe under way. It knows the links, nothing of plans or of waiting threads. Only the holder
/// of the communicator's owner flag calls it.
///
/// A rank has two links to each rank it talks to: one for eager slices and for the answers to the
/// peer's (control), and a bulk link for payloads. A message begins with an eager slice: the
/// envelope and up to `eager_bytes` of data, which are its *head*. The slice is charged to the
/// sender's credit, which is the room that the receiver keeps for messages without a receive. If
/// the credit does not suffice, the slice carries no data and costs nothing. It requests to send if
/// it is not the whole message, if it is not charged, or if sends are strict. The receiver clears
/// the sender to send when a receive takes the message; then the *payload* follows, lent from the
/// sender's memory and placed in the receiver's. Credit comes back with each clear to send, and by
/// itself once half of it is spent.
///
///     send:   queued ──slice pushed──┬─ no request to send ────────────► flushing ─► done
///                                    └─ requested ─cleared─┬─ no payload ─► done
///                                                          └─ sending ────► flushing ─► done
///     recv:   posted ─► arriving ─slice come─┬─ no request to send ────────────► done
///                                            ├─ whole, clear pushed ─► flushing ─► done
///                                            └─ clear pushed, payload comes ────► done
///     probe:  posted ──a message waits► done
///
/// A long message in device memory is copied in pieces (device::DeviceToHost, HostToDevice): its
/// eager slice carries no data, its payload is lent as it reaches the host, and a receive is
/// `landing` before it is done.
///
/// Why nothing deadlocks: an eager slice never waits for credit, so every message is announced as
/// soon as its link has room. A rank whose operations, of whatever kind, do not move listens to all
/// that have begun to send to it before it sleeps, so that room comes. A link that is opened to it
/// rings its waiter (transport/arrivals.hpp): it then opens its own end, and no others. A receiver
/// keeps, per sender, at most kUnexpectedBytes of eager slices, and an envelope for each send that
/// its sender still waits in. A rank without an operation under way listens to nobody.

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comm/groups/group.hpp"
#include "comm/messages/matching.hpp"
#include "comm/messages/message_frame.hpp"
#include "comm/messages/message_operation.hpp"
#include "comm/progress/operation.hpp"
#include "comm/record/flight_recorder.hpp"
#include "comm/record/tracing.hpp"
#include "core/result.hpp"
#include "engine/links.hpp"
#include "transport/copy_costs.hpp"

namespace ccoll {

/// Most memory of the receiver that one rank's messages without a receive may take.
inline constexpr std::size_t kUnexpectedBytes = 1 << 20;

/// Most data of an eager slice, which is one slice on any link: a message of so many bytes never
/// needs a payload, for which its sender would wait.
inline constexpr std::size_t kMaxEagerBytes = kCommonSliceBytes;

/// A slice of rows: short, so that the receiver scatters one while the sender gathers the next.
inline constexpr std::size_t kSliceOfRowsBytes = 32 << 10;

/// The links of messages are their own, far from any program's lanes.
inline constexpr std::uint16_t kHeaderLane = 0x8000;
inline constexpr std::uint16_t kBulkLane = 0x8001;

class Messages {
 public:
  struct Limits {
    std::size_t eager_bytes = 64 << 10;
    bool strict = false;  ///< a send waits for its receive, whatever its size
    /// Messages larger than eager_bytes carry no data in the eager slice: it may have to be placed
    /// in device memory.
    bool all_in_payload = false;
  };

  /// Makes a failure what the caller of an operation with that label is to see.
  using ForCaller = std::function<Failure(Failure failure, std::string_view label)>;

  Messages(const Group& group, LinkTable& links, const Limits& limits, ForCaller for_caller);
  /// Reports operations that begin to `recorder`, and those that are over to `tracing`, unless that
  /// is null.
  void record(FlightRecorder* recorder, Tracing* tracing) {
    recorder_ = recorder;
    tracing_ = tracing;
  }

  /// Whether a link exists that may make its buffer direct: there is none before the first payload
  /// in that direction.
  bool may_be_direct(const MessageOperation& operation) const;
  /// Has that link make it direct.
  Result<std::shared_ptr<const DirectMemory>> make_direct(const MessageOperation& operation,
                                                          const ExportedMemory& memory);
  /// Puts it into its queue and takes what has already come for it. A failure is final.
  Status post(const std::shared_ptr<MessageOperation>& operation);
  /// Looks at what has come; returns the message that such a probe finds.
  Result<std::optional<Received>> look(const Pattern& pattern);

  /// Moves everything on, for a bounded number of slices; true if anything moved.
  Result<bool> advance(Attention attention);

  // For blocking calls of short messages, which fit into an eager slice, while no operation is
  // under way. Neither of them allocates; every other case is left to post().

  enum class Sent : std::uint8_t {
    no,        ///< nothing was done
    flushing,  ///< all is pushed; finish() waits until the link has taken it
    yes,
  };
  Sent send_now(const Pattern& to, const std::byte* data, std::size_t bytes, DataType type);
  enum class Found : std::uint8_t { nothing, message, another_way };
  /// Takes the next message from the rank that the pattern names, if it comes while `keeps_polling`
  /// returns true, which is asked after each look in vain. The message has at most `most` bytes,
  /// and no more than `bytes`, which `data` has.
  Found take_now(const Pattern& from, std::byte* data, std::size_t bytes, std::size_t most,
                 DataType type, Received& got, const std::function<bool()>& keeps_polling);
  /// Finishes a send whose message is pushed.
  void finish(const std::shared_ptr<MessageOperation>& send);

  bool busy() const { return !pending_.empty(); }
  /// Operations under way, in no order.
  const std::vector<std::shared_ptr<MessageOperation>>& pending() const { return pending_; }
  /// Ends a probe, of which nobody else knows.
  void give_up(MessageOperation& probe, Failure failure);
  /// Ends all of them, for good.
  void end_all(const Failure& failure);
  /// The same, but leaves links as they are.
  void end_pending(const Failure& failure);

  /// Adds the traffic so far.
  void add_traffic(TrafficTable& table) const;
  /// By rank: how many receives its messages did not fit.
  const std::map<Rank, std::uint64_t>& refused() const { return refused_; }

  // messages_text.cpp
  /// "recv from rank 0 tag 7 (a buffer of 200 bytes) on rank 1".
  std::string name_of(const MessageOperation& operation) const;
  /// How far it has come, for one that does not move.
  std::string standing(const MessageOperation& operation) const;
  /// Changes whenever it has come further.
  static std::uint64_t progress_of(const MessageOperation& operation) {
    constexpr std::uint64_t kStages = 8;
    return operation.moved_bytes * kStages + static_cast<std::uint64_t>(operation.stage);
  }
  /// The ranks it waits for: its peer, or all that may still send.
  std::vector<Rank> awaited(const MessageOperation& operation) const;
  /// Whether a connection from that rank has arrived.
  bool hears(Rank rank) const;
  /// Whether it waits in vain: for ranks that `has_left` names and whose links, which would report
  /// it themselves, have never been connected.
  bool in_vain(const MessageOperation& operation, const std::function<bool(Rank)>& has_left) const;

 private:
  using Stage = MessageOperation::Stage;
  using What = MessageOperation::What;

  /// A clear to send, and the receive that it completes, if any.
  struct Answer {
    std::uint64_t id = 0;
    MessageOperation* completes = nullptr;
    std::uint32_t slice_bytes = 0;
    bool in_slots = false;
  };

  /// The slice at the front of a link, of which at least the header has come, and the receive that
  /// takes it, if one is known already.
  struct Incoming {
    Frame frame;
    MessageOperation* receive = nullptr;
  };

  /// Everything between this rank and one other.
  struct Channel {
    Rank peer = 0;
    SendLink* out = nullptr;
    ReceiveLink* in = nullptr;
    SendLink* out_bulk = nullptr;    ///< opened for the first payload
    ReceiveLink* in_bulk = nullptr;  ///< opened for the first payload
    std::size_t operations = 0;      ///< under way with this peer by name
    bool ended = false;              ///< `in` has failed: nothing more comes

    std::deque<MessageOperation*> queued, sending;          // sends by stage
    std::map<std::uint64_t, MessageOperation*> requested;   // by id
    std::optional<Incoming> incoming;                       // on `in`
    std::deque<MessageOperation*> arriving;                 // receives, as cleared to send
    std::deque<MessageOperation*> flushing, flushing_bulk;  // by link
    std::vector<MessageOperation*> landing;                 // receives that have all
    std::deque<Answer> answers;                             // clears to send to be pushed
    std::uint64_t next_id = 1;
    std::size_t credit = kUnexpectedBytes;  ///< what the peer's queue still takes
    std::size_t owed = 0;                   ///< what this rank's queue has free again
    std::size_t kept = 0;                   ///< what this rank's queue holds of the peer's
    Traffic traffic;
    static constexpr int kLeastBits = 14;
    /// One for each power of two of the bytes of a message to this rank.
    std::array<CopierChoice, 16> copier_choices;

    /// Begins with what costs less on this machine.
    void estimate(const CopyCosts& costs);
    /// The shortest messages of a choice; the first one has shorter ones, too.
    static std::uint64_t least_bytes_of(std::size_t choice) {
      return std::uint64_t{1} << (kLeastBits - 1 + choice);
    }
    CopierChoice& copier_choice(std::uint64_t bytes) {
      const auto place = std::max(static_cast<int>(std::bit_width(bytes)) - kLeastBits, 0);
      return copier_choices[std::min<std::size_t>(place, copier_choices.size() - 1)];
    }
    /// Whether there is something to tell the peer.
    bool has_news() const { return !answers.empty() || owed >= kUnexpectedBytes / 2; }
  };

  /// Most slices of one link in one round: the owner has others to look after.
  static constexpr int kSlicesAtOnce = 16;
  static constexpr std::size_t kReadAtOnce = 256 << 10;
  /// Cost of a message without a receive, beside its data.
  static constexpr std::size_t kEnvelopeBytes = 128;

  /// Listens to `peer`, or to all that have begun to send if none is named.
  Status open(std::optional<Rank> peer);
  Result<Channel*> channel_to(Rank peer);
  /// Null if it is not open.
  const Channel* channel_if_open(Rank peer) const;
  Status open_out(Channel& channel);
  /// Adds it to the operations under way.
  Channel* enlist(const std::shared_ptr<MessageOperation>& operation);
  Status advance(Channel& channel, bool listen);
  /// A receive or probe that waits for any rank, if there is one.
  const MessageOperation* one_for_any() const;

  // Sending, messages_send.cpp
  Status push_control(Channel& channel);
  Status push_eager_slices(Channel& channel);
  Status push_eager(Channel& channel, MessageOperation& send);
  /// The header of an eager slice with that much data, for sending.
  static SliceHeader head_of(const Channel& channel, Frame frame, std::size_t bytes);
  /// Accounts for an eager slice that is sent.
  static void count_eager(Channel& channel, const SliceHeader& head, bool charged);
  /// Data that the eager slice carries if credit suffices.
  std::size_t head_bytes(const Channel& channel, const MessageOperation& send) const;
  Status push_payloads(Channel& channel);
  /// The next bytes to lend to the link; empty while they are still on the way to the host.
  Result<std::span<const std::byte>> next_of(Channel& channel, MessageOperation& send);
  Status flush(Channel& channel);
  Status cleared_to_send(Channel& channel, const Frame& clear_to_send);

  // Receiving, messages_receive.cpp
  Status read_eager_slices(Channel& channel);
  Status peek(Channel& channel);
  /// Reads the slice that has been peeked at, if it has come.
  Result<bool> read_incoming(Channel& channel);
  /// Reads a credit, if that comes next.
  bool read_credit(Channel& channel);
  /// Waits until the header of a whole message is the next one.
  Found wait_for_message(Channel& channel, const std::function<bool()>& keeps_polling);
  static Envelope envelope_of(const Channel& channel, std::size_t head_bytes);
  Status read_frame(Channel& channel, const ReceiveLink::View& view);
  static void count_arrival(Channel& channel, std::size_t head_bytes) {
    channel.traffic.messages_received++;
    channel.traffic.bytes_received += head_bytes;
  }
  Status arrive(Channel& channel, const Envelope& envelope, const std::byte* head,
                std::size_t head_bytes);
  Status take(Channel& channel, MessageOperation& recv, const Envelope& envelope,
              const std::byte* head, std::size_t head_bytes);
  /// Takes the receive for that message; those before it whose buffers do not fit fail.
  MessageOperation* take_receive(const Envelope& envelope);
  Status receive_now(MessageOperation& recv);
  static bool has_right_to(const Channel& channel, const Envelope& envelope,
                           std::size_t head_bytes);
  /// Binds the receive to that message, whatever its pattern.
  void settle(MessageOperation& recv, const Envelope& envelope);
  /// Chooses which side copies the message's payload.
  static void begin_transfer(Channel& channel, MessageOperation& recv);
  Status read_payloads(Channel& channel);
  /// All data has arrived, or left: completes it as soon as the data is in place.
  void end_transfer(Channel& channel, MessageOperation& recv);
  Status end_landed(Channel& channel);
  /// Moves arrived data to the device as far as there is room; true once all is there.
  static Result<bool> land(MessageOperation& recv);
  Status ended(Channel& channel);
  void answer_probes();

  void add_channels(TrafficTable& table) const;
  /// " (others have: rank 0 tag 3 with 8 bytes)": messages that match no receive.
  std::string others_waiting(const Pattern& pattern) const;
  void complete(MessageOperation& operation, std::optional<Failure> failure = std::nullopt);
  void trace(const MessageOperation& operation);
  void record_begin(MessageOperation& operation);
  void record_end(const MessageOperation& operation, bool failed);
  tl::unexpected<Failure> lost(const MessageOperation& operation, const Failure& failure) const;

  const Group& group_;
  LinkTable& links_;
  const Limits limits_;
  const ForCaller for_caller_;
  std::vector<std::unique_ptr<Channel>> channels_;  // those opened
  std::unordered_map<Rank, Channel*> by_peer_;
  Matcher matcher_;
  std::vector<MessageOperation*> probes_;
  FlightRecorder* recorder_ = nullptr;
  Tracing* tracing_ = nullptr;
  std::vector<std::shared_ptr<MessageOperation>> pending_;  // owns what the queues point to
  bool moved_ = false;                                      // in the present round
  bool over_ = false;                                       // end_all has been called
  TrafficTable past_;                                       // of closed channels, after end_all
  std::map<Rank, std::uint64_t> refused_;
};

}  // namespace ccoll
