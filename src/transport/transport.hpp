// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The transport interface, and the table of those that this build has. Others include headers of
/// this folder only; each transport's folder is private, and transport.cpp alone includes its
/// factory.hpp.

#include <asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/handshake.hpp"
#include "net/peer_address.hpp"
#include "net/service.hpp"
#include "transport/arrivals.hpp"
#include "transport/link.hpp"
#include "transport/waiter.hpp"

namespace ccoll {

/// The settings that a transport needs from its rank.
struct TransportContext {
  /// May be null if the rank has no listener (port 0 in the table): then only inproc is used.
  std::shared_ptr<net::Service> service;
  std::string token;
  std::uint32_t rank = 0;
  std::vector<PeerAddress> table;  ///< all ranks of the job
  std::chrono::milliseconds connect_timeout{60000};
  /// Maximum bytes for the slots of this rank's links in shared memory.
  std::size_t slot_memory_bytes = std::size_t{256} << 20;
  /// In shared memory, larger slices of ordinary memory are read in place, if permitted
  /// (shm/single_copy.hpp).
  bool single_copy = true;
  /// Memory that is read in place again and again is collapsed into huge pages
  /// (shm/huge_pages.hpp).
  bool huge_pages = true;
  /// The machine has fewer cores than ranks.
  bool oversubscribed = false;
  /// The job's own communicator, the first that this rank is in; 0: none.
  std::uint64_t job = 0;
  /// Slices over networks carry checksums; all ranks must agree.
  bool checksum = false;

  /// Whether to do in the background, before they begin, what first calls would wait for.
  bool works_ahead(std::uint64_t communicator) const;
};

/// One rank's end of a transport. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Both open at once without waiting; the link connects in the background and rings `waiter`.
  virtual Result<std::unique_ptr<SendLink>> open_send(const LinkId& id,
                                                      std::shared_ptr<Waiter> waiter) = 0;
  virtual Result<std::unique_ptr<ReceiveLink>> open_receive(const LinkId& id,
                                                            std::shared_ptr<Waiter> waiter) = 0;
  /// Takes a connection for a link from this rank's listener. Service thread only.
  virtual void accept(asio::ip::tcp::socket) {}
  /// Reports to `arrivals` each link that concerns it and arrives before it is opened here. Links
  /// that are there already are reported at once. Ends when that communicator is forgotten.
  virtual void listen(std::shared_ptr<Arrivals> arrivals) = 0;
  /// This rank's part of the communicator has ended: connections for links never opened here are
  /// dropped, also later ones, and their senders learn that nobody reads.
  virtual void forget(std::uint64_t communicator) = 0;
  /// Whether links from this rank to `peer` turned out to need the next transport. A transport that
  /// is the next one of another must say so of ranks that it does not reach, too.
  virtual bool gave_up(std::uint32_t /*peer*/) { return false; }
};

/// One row of the table of transports, best first.
struct TransportKind {
  std::string_view name;
  /// Whether both ends of a link see the same memory; the cost model asks (comm/groups/costs.cpp).
  bool is_memory;
  /// The purpose of its connections among those that come to the rank's listener, if it has any.
  std::optional<net::Purpose> purpose;
  /// Whether two ranks can use it. Symmetric and computed from the address table alone, so that
  /// both ends decide alike.
  bool (*reaches)(const PeerAddress& a, const PeerAddress& b);
  /// Why this rank does not reach the peer, where their hosts and processes do not show it; or
  /// null.
  std::string (*why_not)(const PeerAddress& mine, const PeerAddress& theirs);
  /// `next`: serves pairs for which this one turns out not to work; null for the last transport, or
  /// if no other may be used. The row above may ask for links to ranks that this one does not
  /// reach: `next` must open them. Returns null if this build lacks the transport.
  std::shared_ptr<Transport> (*make)(const TransportContext& context,
                                     std::shared_ptr<Transport> next);
  /// Whether links from each rank to each other take so little that some may be opened before they
  /// are needed; or null, if opening one takes no time, or an idle one too much.
  bool (*may_open_ahead)(const TransportContext& context);
};

/// Upper limit on rows: the bits that the address table has for them (comm/groups/agreement.cpp).
inline constexpr unsigned kMostTransports = 7;

std::span<const TransportKind> transports();
const TransportKind* find_transport(std::string_view name);
/// The one whose connections have that purpose; null if there is none.
const TransportKind* find_transport(net::Purpose purpose);

/// The allowed transports, as a program or CCOLL_TRANSPORT names them.
class TransportChoice {
 public:
  TransportChoice() = default;
  /// `excluded`: a bit for each row of transports().
  explicit TransportChoice(std::uint32_t excluded) : excluded_(excluded) {}
  /// "tcp"; "shm,tcp": one of these; "^verbs,shm": none of these; "": any. Fails on an unknown
  /// name, and if no transport is left.
  static Result<TransportChoice> parse(std::string_view text);
  /// The same for a text that has been parsed before.
  static TransportChoice of(std::string_view text) { return value_or_throw(parse(text)); }

  bool allows(const TransportKind& kind) const;
  std::uint32_t excluded() const { return excluded_; }
  /// "by reach", "tcp", "shm or tcp".
  std::string text() const;

 private:
  std::uint32_t excluded_ = 0;  ///< a bit for each row of transports()
};

/// PeerAddress::fabrics of this process: the networks its RDMA devices reach. Opens the devices.
/// Fails on invalid settings (CCOLL_IB_HCA and the like).
Result<std::uint8_t> usable_fabrics();
/// PeerAddress::rails of this process.
std::uint8_t usable_rails();
/// The line of `cc-bench info` on reading other processes' memory in place.
std::string describe_single_copy();
/// The line on the huge pages that speed it up.
std::string describe_huge_pages();
/// The lines of `cc-bench info` on RDMA: each device, or why there is none and what to do.
std::vector<std::string> describe_fabrics();

}  // namespace ccoll
