// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Chooses each pair's transport, and holds one rank's ends of all of them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace ccoll {

/// The transports of one rank of the job, made at once; shared by its communicators.
class TransportSet {
 public:
  /// `allowed`: the transports that may be used (TransportChoice).
  TransportSet(TransportContext context, std::string allowed);

  /// The transport between this rank and `peer` (ranks of the job): the first row of transports()
  /// that is allowed and reaches the peer.
  Result<const TransportKind*> between(std::uint32_t peer) const;
  /// The same for links from this rank to `peer`, past transports that turned out not to work.
  Result<const TransportKind*> in_use_to(std::uint32_t peer) const;
  Transport& get(const TransportKind& kind);
  /// Whether that communicator opens the links to `peer` that it will probably need when it is
  /// made. The peer need not come to the same verdict.
  bool opens_ahead(std::uint64_t communicator, std::uint32_t peer) const;
  /// Takes a connection for a link that came to this rank's listener; `purpose`: Purpose::link or
  /// another one of a transport. Service thread only.
  void accept(net::Purpose purpose, asio::ip::tcp::socket socket);
  /// Transport's, for all of them.
  void listen(const std::shared_ptr<Arrivals>& arrivals);
  /// That communicator of this rank has ended.
  void forget(std::uint64_t communicator);
  const TransportContext& context() const { return context_; }
  const std::string& allowed() const { return allowed_; }

 private:
  const TransportContext context_;
  const std::string allowed_;
  const TransportChoice choice_;
  // by row of transports(); null if this build lacks it; immutable once made
  std::vector<std::shared_ptr<Transport>> made_;
};

}  // namespace ccoll
