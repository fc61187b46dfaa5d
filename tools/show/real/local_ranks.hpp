// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ranks that are threads of this process, over the transport that is asked for.

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

/// Fails where there is no transport of that name.
Status check_transport(const std::string& transport);

/// Runs `body` on every rank, each in a thread of its own with its communicator. What the first
/// rank that failed says, or nothing.
std::string on_every_rank(Rank size, const std::string& transport,
                          const std::function<void(Communicator&)>& body);

/// The ranks' links alone, for programs that no communicator would run.
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
  /// Last, so that nothing is handed to a transport that has ended.
  std::vector<std::unique_ptr<net::Listener>> listeners_;
};

}  // namespace ccoll::show
