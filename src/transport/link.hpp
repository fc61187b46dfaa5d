// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The contract of a link: an ordered, reliable, bounded FIFO of slices from one rank to one peer.
/// It hides whether bytes travel through a socket, shared memory, another GPU or a NIC. Knows
/// nothing of algorithms.
///
/// Both ends are non-blocking and are called only by the holder of their communicator's owner flag.
/// Failure is a value and final: a failed link stays failed.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "core/copy.hpp"
#include "core/result.hpp"
#include "core/signature.hpp"

namespace ccoll {

/// Names a link within a job. `lane` is the number of the sender's lane that pushes it.
struct LinkId {
  std::uint64_t communicator = 0;
  std::uint32_t from = 0;  ///< rank of the job
  std::uint32_t to = 0;
  std::uint16_t lane = 0;
  friend auto operator<=>(const LinkId&, const LinkId&) = default;
};

/// Where one communicator's links begin and end in a map by LinkId.
template <typename Map>
auto links_of(std::uint64_t communicator, Map& links) {
  constexpr auto kLast = std::numeric_limits<std::uint32_t>::max();
  return std::pair(
      links.lower_bound({.communicator = communicator}),
      links.upper_bound({communicator, kLast, kLast, std::numeric_limits<std::uint16_t>::max()}));
}

/// Travels with every slice, so that ranks that make different calls find out instead of mixing
/// up their data.
struct SliceHeader {
  std::uint64_t sequence = 0;  ///< of the call in its communicator
  Signature signature;
  std::uint32_t bytes = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(SliceHeader) == 32);

/// Most bytes of one slice on any link.
inline constexpr std::size_t kMaxSliceBytes = 4 << 20;

/// A slice of so many bytes goes over every link.
inline constexpr std::size_t kCommonSliceBytes = 128 << 10;

/// Slices that every link holds at least; schedules are verified never to need more.
inline constexpr std::size_t kLinkSlots = 4;

/// Who copies a slice that is lent, where its receiver cannot read it where it lies: the receiver,
/// at once to where it belongs; or the sender, into memory of the link, while the receiver takes
/// what came before. `sender_always`: even where the receiver could read it, through memory, for
/// that has more to do with it than the sender, and finds it nearer in the link's. `sender_aside`:
/// as `sender`, of a result that was made elsewhere and then copied to where it is lent: who stores
/// to lines that the receiver has read before waits for each of them, unless it copies them whole.
enum class Copier : std::uint8_t { receiver, sender, sender_always, sender_aside };

/// A kind of slices, by which a receiver tells whether it would rather read them where they lie.
/// Below kLoanClasses; the caller gives the numbers their meaning.
using LoanClass = std::uint32_t;
inline constexpr LoanClass kLoanClasses = 32;

/// Memory that is not the host's to read and write, such as a GPU's, as its maker exports it.
struct ExportedMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  int file = -1;             ///< a dma-buf; it need be open only while it is made known
  std::uint64_t offset = 0;  ///< of `data` in it
};

/// Exported memory that a link's own device reads and writes where it lies, as long as this lives.
class DirectMemory {
 public:
  virtual ~DirectMemory() = default;
};

/// How a peer has gone, as control connections tell: with a goodbye, or without one.
enum class Departure : std::uint8_t { left, lost };

/// What a link has to tell of itself to whoever counts.
struct LinkReport {
  /// Which transport it is, as far as that is settled.
  std::string_view transport;
  /// How often it had to try again what should have worked at once: to connect, or to hand the
  /// kernel a slice that had no room there.
  std::uint64_t retries = 0;
};

class SendLink {
 public:
  virtual ~SendLink() = default;

  /// The most that a slice may have here: kCommonSliceBytes or more.
  virtual std::size_t most_bytes() const { return kMaxSliceBytes; }
  /// What `whole` bytes that are lent, to be copied so, to who offers a place for each slice are
  /// best cut into: may be more than most_bytes().
  virtual std::size_t good_bytes(std::uint64_t /*whole*/, Copier /*copier*/) const {
    return 128 << 10;
  }
  /// Whether a slice that is lent is copied only once, to where it belongs.
  virtual bool copies_once() const { return false; }
  /// Whether the receiver has said that it would rather read slices of this class where they lie.
  virtual bool prefers_loans(LoanClass /*loans*/) const { return false; }
  /// Whether a slice from there that is lent is read where it lies, through memory that the peer
  /// has mapped.
  virtual bool lends_mapped(const std::byte* /*data*/, std::size_t /*bytes*/) { return false; }
  /// Whether one more slice may be pushed or lent now. room(), push() and lend() may be called only
  /// then, and check it: a slice too many would overwrite one that is yet to be read. The slice may
  /// be pushed later, though the link has failed meanwhile: then it goes nowhere.
  virtual bool has_room() = 0;
  /// Memory for a slice of `bytes`; valid until push.
  virtual std::byte* room(std::size_t bytes) = 0;
  /// Sends the slice that was written to room(); it may wait for progress(), so that slices that
  /// are made one after another travel together.
  virtual void push(const SliceHeader& header) = 0;
  /// Sends a slice from where it lies, as push() does. The memory stays untouched until drained()
  /// or revoke(). `copier`, a hint: not Copier::receiver where the sender has nothing else to do
  /// meanwhile, or that was found to take longer (copier_choice.hpp).
  virtual void lend(const SliceHeader& header, const std::byte* data,
                    Copier copier = Copier::receiver) = 0;

  /// What became of a slice that was to be sent: `gone`: it arrives without further calls.
  enum class Sent : std::uint8_t { no_room, waits, gone };
  /// has_room(), and if there is, a copy to room() and push(): in one for who has little to send.
  virtual Sent send(const SliceHeader& header, const std::byte* data) {
    if (!has_room()) return Sent::no_room;
    copy_few(room(header.bytes), data, header.bytes);
    push(header);
    return Sent::waits;
  }

  /// Of a slice that several links of this communicator's rank are to send: memory that it is
  /// written to once for all that take it by push_shared(), until when it stays the same. Null
  /// where there is none, or where lending it from `data`, unless that is null, needs no copy.
  virtual std::byte* shared_room(const std::byte* /*data*/, std::size_t /*bytes*/) {
    return nullptr;
  }
  /// As push(), of the slice in `shared`, another link's shared_room(). False if this link cannot.
  virtual bool push_shared(const SliceHeader& /*header*/, const std::byte* /*shared*/) {
    return false;
  }

  /// The next `bytes` that are lent will lie one behind the other from `data` on: for who can do
  /// more for so much memory at once than for a slice of it. The memory stays untouched until all
  /// of it was lent and drained() holds, or until revoke(). A hint.
  virtual void announce(const std::byte* /*data*/, std::size_t /*bytes*/) {}
  /// Makes such memory known to what serves this link, once that is connected; or why it cannot be.
  virtual Result<std::shared_ptr<const DirectMemory>> make_direct(const ExportedMemory& memory);
  /// As announce(), of memory that this link has made direct, and no hint: all of it is lent then,
  /// and no CPU reads it.
  virtual void announce_direct(const std::byte* /*data*/, std::size_t /*bytes*/,
                               std::shared_ptr<const DirectMemory> /*memory*/) {}
  /// Moves on what was pushed; true if anything moved.
  virtual bool progress() = 0;
  /// Lent memory is the owner's again, and what was pushed arrives without further calls.
  virtual bool drained() = 0;
  /// Lent memory is being taken back: begins what revoke() may have to wait for, so that the waits
  /// for several links are one.
  virtual void begin_revoke() {}
  /// After a failure: once this returns, no one reads lent memory, or whoever still does will find
  /// out before using what was read. Bounded.
  virtual void revoke() = 0;

  /// The peer has gone and takes nothing any more: whoever waits for it gets `why` as the failure.
  /// There is no room to a peer that is lost. What is sent to one that left is sent, read or not.
  virtual void peer_gone(Departure /*how*/, const Failure& /*why*/) {}
  /// Whether the peer's end has been there.
  virtual bool connected() const = 0;
  virtual const Failure* failure() const = 0;
  virtual LinkReport report() const { return {}; }
};

class ReceiveLink {
 public:
  virtual ~ReceiveLink() = default;

  /// The slice at the front, whole. `data` may be the offered memory.
  struct View {
    SliceHeader header;
    const std::byte* data = nullptr;
  };

  /// The front slice's header, as soon as that has come; null until then. Moves bytes. For who must
  /// know the slice before offering it a place.
  virtual const SliceHeader* peek() = 0;
  /// The payload of the front slice may be put at `data` if it has exactly `bytes`; holds for that
  /// slice only, and is a hint. Not after front() has been called for it since it was peeked at.
  virtual void offer(std::byte* data, std::size_t bytes) = 0;
  /// After offer(): payloads of the same call that follow that slice may be put right behind it, of
  /// whole slices and at most `bytes` together. A hint, which holds until the next offer().
  virtual void offer_beyond(std::size_t /*bytes*/) {}
  /// The payloads of the slices that follow those announced so far, `bytes` together and no more
  /// than whole ones, may be put one behind the other from `data` on, until they are popped or
  /// revoke() is called. A hint; a link of which some is announced is so of all its payloads, also
  /// of those that may not: then `data` is null.
  virtual void announce(std::byte* /*data*/, std::size_t /*bytes*/) {}
  /// As SendLink's.
  virtual Result<std::shared_ptr<const DirectMemory>> make_direct(const ExportedMemory& memory);
  /// As announce(), of memory that this link has made direct. What comes nevertheless elsewhere is
  /// not the CPU's to copy there.
  virtual void announce_direct(std::byte* /*data*/, std::size_t /*bytes*/,
                               std::shared_ptr<const DirectMemory> /*memory*/) {}
  /// Tells the sender whether slices of this class are rather to be lent (prefers_loans). A hint.
  virtual void prefer_loans(LoanClass /*loans*/, bool /*prefers*/) {}
  /// Null until the front slice is whole (or the link has failed). Moves bytes.
  virtual const View* front() = 0;
  /// Whether front() would give a slice, as far as it has come; moves nothing.
  virtual bool whole() const = 0;
  /// Whether the peer's end has been there: then its leaving shows on this link too.
  virtual bool connected() const = 0;
  /// Before reading the view: false if its owner took it back, which fails the call.
  virtual bool begin_read() = 0;
  /// For who reads from several links, after the last read of all and before the first pop(), which
  /// tells an owner: nobody else's waits meanwhile.
  virtual void end_read() {}
  /// After the last read and before anything computed from it is pushed: false if its owner took
  /// it back meanwhile, which fails the call. Ends every read that begin_read() has begun.
  [[nodiscard]] virtual bool pop() = 0;

  /// After a failure: once this returns, no peer writes to memory that was offered or announced,
  /// and nothing comes any more if one could have. Bounded.
  virtual void revoke() {}

  /// The peer has gone. All slices that it sent are still delivered; then the link has failed with
  /// `why`. A link over the network may have to wait for what is still on its way. If the peer is
  /// lost before it connected this link, it never will.
  virtual void peer_gone(Departure /*how*/, const Failure& /*why*/) {}
  virtual const Failure* failure() const = 0;
  virtual LinkReport report() const { return {}; }
};

/// Of links over what does not reach such memory.
inline tl::unexpected<Failure> cannot_be_direct() {
  return fail(ErrorKind::unsupported, "the link is not one over RDMA without checksums");
}

inline Result<std::shared_ptr<const DirectMemory>> SendLink::make_direct(const ExportedMemory&) {
  return cannot_be_direct();
}

inline Result<std::shared_ptr<const DirectMemory>> ReceiveLink::make_direct(const ExportedMemory&) {
  return cannot_be_direct();
}

}  // namespace ccoll
