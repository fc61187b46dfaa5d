// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The links of one communicator, opened when a program first needs them.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/traffic.hpp"
#include "schedule/problem.hpp"
#include "transport/link.hpp"

namespace ccoll {

class Arrivals;
class TransportSet;
class Waiter;

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

  /// A slice that a peer has sent and no program has taken, though that call is over here.
  struct Unread {
    Rank from = 0;
    SliceHeader header;
  };
  /// It is of a call before that one, on a lane below that one, and one for which `counts` is true.
  std::optional<Unread> unread(
      std::uint64_t before, std::uint16_t lanes,
      const std::function<bool(Rank, const SliceHeader&)>& counts = {}) const;

  /// Its links with that rank, also those that are opened later, are told that it has gone.
  void peer_gone(Rank peer, Departure how, const Failure& why);

  /// Adds how often its links had to try again.
  void add_retries(TrafficTable& table) const;

  /// After a failure: takes back all memory that was lent or offered.
  void revoke();

 private:
  using Key = std::pair<Rank, std::uint16_t>;
  struct Gone {
    Departure how;
    Failure why;
  };

  const std::uint64_t communicator_;
  const std::vector<std::uint32_t> group_;
  const std::shared_ptr<TransportSet> transports_;
  const std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<Arrivals> arrivals_;
  std::map<Key, std::unique_ptr<SendLink>> senders_;
  std::map<Key, std::unique_ptr<ReceiveLink>> receivers_;
  std::map<Rank, Gone> gone_;
};

}  // namespace ccoll
