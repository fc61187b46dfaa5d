// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The TCP store that rank 0 serves for its own job. The public one (ccoll/store.hpp) is the same
/// without a job: it serves whoever knows its token.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ccoll/store.hpp"
#include "core/result.hpp"
#include "system/process_mutex.hpp"

namespace ccoll::rendezvous {

/// The jobs of which this process serves the store. Thread-safe.
class OwnJobs {
 public:
  OwnJobs();
  /// Before the server stands, or its first clients would be turned away.
  void add(const std::string& job);
  /// Drawn by the process: tells its servers from those of others.
  std::uint64_t process() const { return process_; }

  /// Why a client of that job has come to the wrong store. `other` is the process of one that is
  /// to serve the store itself, and cannot as its address is taken; 0: of all others.
  Status objection(const std::string& job, std::uint64_t other) const;

 private:
  const std::uint64_t process_;
  mutable ProcessMutex mutex_;
  std::set<std::string> names_;  // guarded by mutex_
};

/// What a client says of itself.
struct JobClaim {
  std::string job;
  std::uint64_t could_not_listen = 0;  ///< the process's OwnJobs::process(), where that is so
};

/// A null `jobs` serves all.
Result<std::unique_ptr<StoreServer>> serve_store(const std::string& address,
                                                 const std::string& token, const TlsOptions& tls,
                                                 std::shared_ptr<const OwnJobs> jobs);
/// Fails with `mismatch` where the server is another job's.
Result<std::shared_ptr<Store>> connect_store(const std::string& address, const std::string& token,
                                             std::chrono::milliseconds timeout,
                                             const TlsOptions& tls,
                                             const std::optional<JobClaim>& claim);

}  // namespace ccoll::rendezvous
