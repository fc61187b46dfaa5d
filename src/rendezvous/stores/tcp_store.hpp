// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The TCP store that rank 0 serves for its own job. The public one (ccoll/store.hpp) is the same
/// without a job: it serves all clients that know its token.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ccoll/store.hpp"
#include "core/result.hpp"
#include "system/locks.hpp"

namespace ccoll::rendezvous {

/// The jobs that this process serves the store for. Thread-safe.
class OwnJobs {
 public:
  OwnJobs();
  /// Call it before the server starts, or its first clients would be turned away.
  void add(const std::string& job);
  /// A random number that distinguishes this process's servers from others.
  std::uint64_t process() const { return process_; }

  /// The reason why a client of that job has come to the wrong store. `other` is nonzero if the
  /// client must serve the store but its address is taken: it is then the client's process.
  Status objection(const std::string& job, std::uint64_t other) const;

 private:
  const std::uint64_t process_;
  Guarded<std::set<std::string>, ProcessMutex> names_;
};

/// A client's claim about itself.
struct JobClaim {
  std::string job;
  std::uint64_t could_not_listen = 0;  ///< OwnJobs::process() of the client's process in that case
};

/// If `jobs` is null, it serves all jobs.
Result<std::unique_ptr<StoreServer>> serve_store(const std::string& address,
                                                 const std::string& token, const TlsOptions& tls,
                                                 std::shared_ptr<const OwnJobs> jobs);
/// Fails with `mismatch` if the server is another job's. Where nobody listens, `hint` says what may
/// be wrong.
Result<std::shared_ptr<Store>> connect_store(const std::string& address, const std::string& token,
                                             std::chrono::milliseconds timeout,
                                             const TlsOptions& tls,
                                             const std::optional<JobClaim>& claim,
                                             const std::string& hint = "is rank 0 running?");

}  // namespace ccoll::rendezvous
