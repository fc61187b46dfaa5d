// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A way for slices to travel, and the table of those that this build has. Outsiders include this
/// and link.hpp; each transport's folder is its own business.

#include <asio/ip/tcp.hpp>
#include <memory>
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

/// What a transport needs to know of the rank it works for.
struct TransportContext {
  std::shared_ptr<net::Service> service;
  std::string token;
  std::uint32_t rank = 0;
  std::vector<PeerAddress> table;  ///< all ranks of the job
  std::chrono::milliseconds connect_timeout{60000};
  /// The most that slots of this rank's links in shared memory may take.
  std::size_t slot_memory_bytes = std::size_t{256} << 20;
  /// In shared memory, larger slices of ordinary memory are read where they lie, if that is allowed
  /// (shm/single_copy.hpp).
  bool single_copy = true;
  /// Memory that is read where it lies again and again is put together to huge pages
  /// (shm/huge_pages.hpp).
  bool huge_pages = true;
  /// Ranks outnumber the cores of their machine.
  bool oversubscribed = false;
  /// Slices over wires carry checksums; the same on all ranks.
  bool checksum = false;
};

/// One rank's end of a transport. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Both open at once and without waiting; the link connects in the background and rings `waiter`.
  virtual Result<std::unique_ptr<SendLink>> open_send(const LinkId& id,
                                                      std::shared_ptr<Waiter> waiter) = 0;
  virtual Result<std::unique_ptr<ReceiveLink>> open_receive(const LinkId& id,
                                                            std::shared_ptr<Waiter> waiter) = 0;
  /// A connection for one of its links that came to this rank's listener. On the service thread.
  virtual void accept(asio::ip::tcp::socket) {}
  /// Tells `arrivals` of each link that concerns it and comes before it is opened here; at once of
  /// those that have come already. Until that communicator is forgotten.
  virtual void listen(std::shared_ptr<Arrivals> arrivals) = 0;
  /// This rank's part of that communicator has ended: what has come or will come for links of it
  /// that were never opened here is dropped, and their senders learn that nobody reads.
  virtual void forget(std::uint64_t communicator) = 0;
  /// Whether links from this rank to `peer` are those of the next transport, as it turned out.
  virtual bool gave_up(std::uint32_t /*peer*/) { return false; }
};

/// One row of the table of transports, best first.
struct TransportKind {
  std::string_view name;
  /// Whether two ranks can use it; symmetric, from the address table alone, so that both ends of a
  /// pair decide alike.
  bool (*reaches)(const PeerAddress& a, const PeerAddress& b);
  /// `next`: what serves pairs for which this one turns out not to work; null for the last, and
  /// where no other may be used. Null where this build has it not.
  std::shared_ptr<Transport> (*make)(const TransportContext& context,
                                     std::shared_ptr<Transport> next);
  std::string_view what;  ///< one line for `cc-bench info`
};

std::span<const TransportKind> transports();
const TransportKind* find_transport(std::string_view name);

/// The transports that may be used, as a program or CCOLL_TRANSPORT says it.
class TransportChoice {
 public:
  TransportChoice() = default;
  /// By rows of transports().
  explicit TransportChoice(std::uint32_t excluded) : excluded_(excluded) {}
  /// "tcp"; "shm,tcp": one of these; "^verbs,shm": none of these; "": any. Refuses what is no
  /// transport, and what leaves none.
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

/// PeerAddress::fabrics of this process: what its RDMA devices reach. Opens them. Fails where what
/// was asked for (CCOLL_IB_HCA and the like) makes no sense.
Result<std::uint8_t> usable_fabrics();
/// PeerAddress::rails of this process.
std::uint8_t usable_rails();
/// What `cc-bench info` says of reading what other processes send where it lies.
std::string describe_single_copy();
/// And of the huge pages that make it faster.
std::string describe_huge_pages();
/// What `cc-bench info` says of RDMA: each device, or why there is none and what to do.
std::vector<std::string> describe_fabrics();

}  // namespace ccoll
