// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The links of one communicator, opened when a program first needs them.

#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/peer_address.hpp"
#include "schedule/problem.hpp"
#include "transport/link.hpp"
#include "transport/transport.hpp"

namespace ccoll {

/// The transports of one rank of the job, made when a pair first needs them; shared by its
/// communicators.
class TransportSet {
 public:
  /// `forced`: the one transport to use, or empty.
  TransportSet(TransportContext context, std::string forced);

  /// What this rank and `peer` (ranks of the job) use: the first row of transports() that reaches.
  Result<const TransportKind*> between(std::uint32_t peer) const;
  Transport& get(const TransportKind& kind);
  /// A connection for a link that came to this rank's listener; on the service thread.
  void accept(asio::ip::tcp::socket socket);
  /// Transport's, for all of them.
  void listen(const std::shared_ptr<Arrivals>& arrivals);
  /// That communicator of this rank has ended.
  void forget(std::uint64_t communicator);
  const TransportContext& context() const { return context_; }

 private:
  const TransportContext context_;
  const std::string forced_;
  std::vector<std::shared_ptr<Transport>> made_;  // by row of transports(); immutable once made
};

class LinkTable {
 public:
  /// `group`: the job's rank of each rank of the communicator.
  LinkTable(std::uint64_t communicator, std::vector<std::uint32_t> group,
            std::shared_ptr<TransportSet> transports, std::shared_ptr<Waiter> waiter)
      : communicator_(communicator),
        group_(std::move(group)),
        transports_(std::move(transports)),
        waiter_(std::move(waiter)) {}

  Result<SendLink*> sender(Rank peer, std::uint16_t lane);
  Result<ReceiveLink*> receiver(Rank peer, std::uint16_t lane);

  /// From now on arrived() tells who has opened a link of that lane.
  void listen(std::uint16_t lane);
  /// Ranks of the job that have opened one, and this rank perhaps not yet; each is told once.
  std::vector<std::uint32_t> arrived();

  /// After a failure: takes back all lent memory.
  void revoke();

 private:
  using Key = std::pair<Rank, std::uint16_t>;

  const std::uint64_t communicator_;
  const std::vector<std::uint32_t> group_;
  const std::shared_ptr<TransportSet> transports_;
  const std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<Arrivals> arrivals_;
  std::map<Key, std::unique_ptr<SendLink>> senders_;
  std::map<Key, std::unique_ptr<ReceiveLink>> receivers_;
};

}  // namespace ccoll
