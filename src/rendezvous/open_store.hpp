// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Makes a working store from the environment. It parses the address, starts the server if this
/// rank must, connects, and puts the job's name before every key.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "ccoll/environment.hpp"
#include "ccoll/store.hpp"
#include "core/result.hpp"
#include "rendezvous/meeting_place.hpp"

namespace ccoll {

struct OpenedStore {
  std::shared_ptr<Store> store;
  /// The server, on the rank that runs it; null on others. It runs until the process ends.
  std::shared_ptr<StoreServer> server;
  /// This rank's presence where the store is a meeting place (Environment::meeting_place): its file
  /// is removed when that of the last rank ends. Keep it until the start-up is over, well or badly.
  std::optional<MeetingFile> presence;
};

/// The store that `environment` names; an in-process one if it names none. Ranks that open the same
/// store several times in a process do so in the same order: the n-th times meet each other.
///
/// An address that is not loopback fails at once without a `token`. Rank 0 serves the store if the
/// environment says so; if the address is taken, it uses the server that is there. Blocks for
/// `timeout` at most.
Result<OpenedStore> open_store(const Environment& environment, const std::string& token,
                               std::chrono::milliseconds timeout, const TlsOptions& tls = {});

/// The store at the address that a UniqueId names. If nobody listens there, the failure and the
/// warnings before it say that the id may be an earlier run's.
Result<std::shared_ptr<Store>> open_store_of_id(const std::string& address,
                                                const std::string& token,
                                                std::chrono::milliseconds timeout,
                                                const TlsOptions& tls);

/// The token in the file at `path`: its bytes without trailing white space. The file must be
/// regular, not empty, and readable by its owner only. `what` is how a failure calls it, such as by
/// the variable or the option that names it.
Result<std::string> read_token_file(const std::string& path, std::string_view what = "token file");

}  // namespace ccoll
