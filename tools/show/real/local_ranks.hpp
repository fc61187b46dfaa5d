// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ranks that are threads of this process, over the requested transport.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ccoll/communicator.hpp"
#include "core/result.hpp"
#include "engine/links.hpp"
#include "net/listener.hpp"
#include "net/peer_address.hpp"

namespace ccoll::show {

/// Fails if there is no transport of that name.
Status check_transport(const std::string& transport);

/// Runs `body` on every rank, each in a thread of its own with its communicator. Returns the error
/// of the first rank that failed, or "".
std::string on_every_rank(Rank size, const std::string& transport,
                          const std::function<void(Communicator&)>& body);

/// Only the ranks' links, for programs that no communicator would run.
class LocalLinks {
 public:
  static Result<std::unique_ptr<LocalLinks>> open(Rank size, const std::string& transport);
  LinkTable& of(Rank rank) { return *tables_[rank]; }

 private:
  LocalLinks() = default;
  Status listen(Rank size);

  std::vector<PeerAddress> addresses_;
  std::vector<std::shared_ptr<TransportSet>> transports_;
  std::vector<std::unique_ptr<LinkTable>> tables_;
  /// The last member, so that nothing is handed to a transport that has ended.
  std::vector<std::unique_ptr<net::Listener>> listeners_;
};

}  // namespace ccoll::show
