// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The contract of a link: an ordered, reliable, bounded FIFO of slices from one rank to one peer.
/// It hides whether bytes travel through a socket, shared memory, another GPU or a NIC. It knows
/// nothing of algorithms.
///
/// Both ends are non-blocking. One thread at a time uses a communicator's links: their user.
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

/// Names a link within a job. `lane`: the sender's lane that pushes it.
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

/// Travels with every slice, so that ranks that make different calls get an error instead of mixed
/// data.
struct SliceHeader {
  std::uint64_t sequence = 0;  ///< of the call in its communicator
  Signature signature;
  std::uint32_t bytes = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(SliceHeader) == 32);

/// Maximum bytes of a slice on any link.
inline constexpr std::size_t kMaxSliceBytes = 4 << 20;

/// Every link takes a slice of this size.
inline constexpr std::size_t kCommonSliceBytes = 128 << 10;

/// Minimum number of slices that a link holds; schedules are verified to need no more.
inline constexpr std::size_t kLinkSlots = 4;

/// Selects the end that copies a lent slice if the receiver cannot read it in place. `receiver`: at
/// once to its destination. `sender`: into the link's memory, while the receiver takes earlier
/// slices. `sender_always`: also if the receiver could read mapped memory in place; for a busier
/// receiver, to which the link's memory is nearer.
enum class Copier : std::uint8_t { receiver, sender, sender_always };

/// A kind of slices. For each kind a receiver says whether it would rather read them where they
/// lie. Below kLoanClasses; the caller gives the numbers their meaning.
using LoanClass = std::uint32_t;
inline constexpr LoanClass kLoanClasses = 32;

/// Memory that is not the host's to read and write, such as a GPU's, as its maker exports it.
struct ExportedMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  int file = -1;             ///< a dma-buf; must be open only during registration
  std::uint64_t offset = 0;  ///< of `data` in the file
};

/// Exported memory that a link's device reads and writes in place, as long as this object lives.
class DirectMemory {
 public:
  virtual ~DirectMemory() = default;
};

/// How a peer has gone, as its control connection reports: with a goodbye, or without one.
enum class Departure : std::uint8_t { left, lost };

/// A link's statistics.
struct LinkReport {
  /// The transport in use, as far as that is settled.
  std::string_view transport;
  /// Retries of what should work at once: to connect, or to hand the kernel a slice when its buffer
  /// is full.
  std::uint64_t retries = 0;
};

/// The part of the contract that both ends have in common.
class LinkEnd {
 public:
  virtual ~LinkEnd() = default;

  /// Whether the peer's end has ever been connected: then its leaving shows on this link too.
  virtual bool connected() const = 0;
  /// Null while the link works.
  virtual const Failure* failure() const = 0;
  virtual LinkReport report() const { return {}; }

  /// The peer has gone. Its slices are still delivered, for which a network link may have to wait;
  /// then calls that wait for it fail with `why`. There is no room to a lost peer. Slices to a peer
  /// that left are sent, read or not. A lost peer that has not connected this link never will.
  virtual void peer_gone(Departure /*how*/, const Failure& /*why*/) {}
  /// After a failure: once this returns, the peer neither reads memory that was lent here nor
  /// writes to memory that was offered or announced, and nothing more arrives if it could be
  /// written there. If a late reader is unavoidable, it detects that before it uses the data.
  /// Bounded.
  virtual void revoke() = 0;

  /// Registers such memory with the device of this link, once connected; or says why it cannot.
  virtual Result<std::shared_ptr<const DirectMemory>> make_direct(const ExportedMemory& /*memory*/);
};

class SendLink : public LinkEnd {
 public:
  /// The best slice size for `whole` lent bytes with this copier, if the receiver offers a place
  /// for each slice. May exceed kCommonSliceBytes.
  virtual std::size_t good_bytes(std::uint64_t /*whole*/, Copier /*copier*/) const {
    return 128 << 10;
  }
  /// Whether a lent slice is copied only once, to its destination.
  virtual bool copies_once() const { return false; }
  /// Whether the receiver has said that it would rather read slices of this class where they lie.
  virtual bool prefers_loans(LoanClass /*loans*/) const { return false; }
  /// Whether one more slice may be pushed or lent. room(), push() and lend() require it and check
  /// it: one slice too many would overwrite an unread one. If the link fails in between, the push
  /// is allowed and the slice goes nowhere.
  virtual bool has_room() = 0;
  /// Memory for a slice of `bytes`; valid until push.
  virtual std::byte* room(std::size_t bytes) = 0;
  /// Sends the slice that was written to room(). It may wait for progress(), so that slices made
  /// one after another travel together.
  virtual void push(const SliceHeader& header) = 0;
  /// Sends a slice from where it lies, as push() does. The memory must stay untouched until
  /// drained() or revoke(). `copier` is a hint: not Copier::receiver if the sender is otherwise
  /// idle, or if that took longer (engine/copier_choice.hpp).
  virtual void lend(const SliceHeader& header, const std::byte* data,
                    Copier copier = Copier::receiver) = 0;

  /// The outcome of send(). `gone`: the slice arrives without further calls.
  enum class Sent : std::uint8_t { no_room, waits, gone };
  /// has_room() and, if there is room, a copy to room() and push(), in one call for small slices.
  virtual Sent send(const SliceHeader& header, const std::byte* data) {
    if (!has_room()) return Sent::no_room;
    copy_few(room(header.bytes), data, header.bytes);
    push(header);
    return Sent::waits;
  }

  /// Memory for a slice that several links of this communicator's rank send: written once, then
  /// unchanged until all have taken it by push_shared(). Null if there is none, or if lending from
  /// `data` (unless null) needs no copy.
  virtual std::byte* shared_room(const std::byte* /*data*/, std::size_t /*bytes*/) {
    return nullptr;
  }
  /// push() for the slice in `shared`, another link's shared_room(). False if this link cannot.
  virtual bool push_shared(const SliceHeader& /*header*/, const std::byte* /*shared*/) {
    return false;
  }

  /// A hint: the next `bytes` that are lent lie contiguously from `data` on, so that a link can
  /// prepare all of it at once. The memory must stay untouched until all of it is lent and
  /// drained() holds, or until revoke(). `memory` is what make_direct() made of it, or null. With
  /// it this is no hint: all of it will be lent, and no CPU reads it.
  virtual void announce(const std::byte* /*data*/, std::size_t /*bytes*/,
                        const std::shared_ptr<const DirectMemory>& /*memory*/) {}
  /// Advances pushed slices; true if anything moved.
  virtual bool progress() = 0;
  /// Whether lent memory belongs to its owner again, and pushed slices arrive without further
  /// calls.
  virtual bool drained() = 0;
  /// Begins the part of revoke() that may have to wait, so that several links wait at the same
  /// time.
  virtual void begin_revoke() {}
};

class ReceiveLink : public LinkEnd {
 public:
  /// The whole slice at the front. `data` may be the offered memory.
  struct View {
    SliceHeader header;
    const std::byte* data = nullptr;
    bool is_mapped = false;  ///< `data` is the sender's own memory
  };

  /// The front slice's header once it has arrived, else null. Moves bytes. Lets a receiver see the
  /// slice before it offers a place.
  virtual const SliceHeader* peek() = 0;
  /// A hint: the payload of the front slice may be put at `data` if it has exactly `bytes`. Valid
  /// for that slice only, and not once front() has been called for it after peek().
  virtual void offer(std::byte* data, std::size_t bytes) = 0;
  /// A hint after offer(): later payloads of the same call may follow right behind that slice,
  /// whole slices of at most `bytes` together. Holds until the next offer().
  virtual void offer_beyond(std::size_t /*bytes*/) {}
  /// A hint: the payloads after those announced so far, whole slices of `bytes` together, may be
  /// put contiguously from `data` on, until popped or revoked. Once a link announces any payload,
  /// it announces all; `data` is null for those that may not be placed. `memory` is what
  /// make_direct() made of it, or null. With it this is no hint: the CPU cannot copy a payload
  /// there that arrives elsewhere.
  virtual void announce(std::byte* /*data*/, std::size_t /*bytes*/,
                        const std::shared_ptr<const DirectMemory>& /*memory*/) {}
  /// Tells the sender whether slices of this class are rather to be lent (prefers_loans). A hint.
  virtual void prefer_loans(LoanClass /*loans*/, bool /*prefers*/) {}
  /// Null until the front slice is whole (or the link has failed). Moves bytes.
  virtual const View* front() = 0;
  /// Whether front() would return a slice, from what has arrived; moves nothing.
  virtual bool whole() const = 0;
  /// Call before reading the view: false if its owner took it back, which fails the call.
  virtual bool begin_read() = 0;
  /// For a caller that reads from several links: call after the last read of all and before the
  /// first pop(), which wakes one owner: the others do not wait meanwhile.
  virtual void end_read() {}
  /// Call after the last read, before pushing anything computed from it: false if its owner took it
  /// back, which fails the call. Ends every read that begin_read() began.
  [[nodiscard]] virtual bool pop() = 0;
};

/// For links that cannot reach such memory.
inline tl::unexpected<Failure> cannot_be_direct() {
  return fail(ErrorKind::unsupported, "the link is not one over RDMA without checksums");
}

inline Result<std::shared_ptr<const DirectMemory>> LinkEnd::make_direct(const ExportedMemory&) {
  return cannot_be_direct();
}

}  // namespace ccoll
