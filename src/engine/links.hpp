// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The links of one communicator, each opened when a program first needs it, and their traffic.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/problem.hpp"
#include "transport/link.hpp"

namespace ccoll {

class Arrivals;
class TransportSet;
class Waiter;

/// Between this rank and another. Bytes count payload, without what links add.
struct Traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t retries = 0;  ///< from LinkReport

  Traffic& operator+=(const Traffic& other) {
    messages_sent += other.messages_sent;
    bytes_sent += other.bytes_sent;
    messages_received += other.messages_received;
    bytes_received += other.bytes_received;
    retries += other.retries;
    return *this;
  }
};

/// Key: the rank at the other end, and the transport by the link's own name; empty if a link does
/// not know it.
using TrafficTable = std::map<std::pair<Rank, std::string_view>, Traffic>;

class LinkTable {
 public:
  /// `group`: the rank in the job of each rank of the communicator.
  LinkTable(std::uint64_t communicator, std::vector<std::uint32_t> group,
            std::shared_ptr<TransportSet> transports, std::shared_ptr<Waiter> waiter)
      : communicator_(communicator),
        group_(std::move(group)),
        transports_(std::move(transports)),
        waiter_(std::move(waiter)) {}

  Result<SendLink*> sender(Rank peer, std::uint16_t lane);
  Result<ReceiveLink*> receiver(Rank peer, std::uint16_t lane);
  /// Whether to open links to that rank before a program needs them.
  bool opens_ahead(Rank peer) const;

  /// From here on arrived() reports links of that lane that peers open.
  void listen(std::uint16_t lane);
  /// Ranks of the job that have opened one, perhaps before this rank did; each is reported once.
  std::vector<std::uint32_t> arrived();

  /// A slice that a peer has sent and no program has taken, though its call is over here.
  struct Unread {
    Rank from = 0;
    SliceHeader header;
  };
  /// Finds one of a call before `before`, on a lane below `lanes`, for which `counts` is true.
  std::optional<Unread> unread(
      std::uint64_t before, std::uint16_t lanes,
      const std::function<bool(Rank, const SliceHeader&)>& counts = {}) const;

  /// Informs this rank's links with that peer, also those opened later, that it has gone.
  void peer_gone(Rank peer, Departure how, const Failure& why);

  /// Adds the retries of its links.
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
