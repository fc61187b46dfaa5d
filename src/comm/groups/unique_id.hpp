// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The contents of a UniqueId, and how ranks meet at its store.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "ccoll/store.hpp"
#include "ccoll/unique_id.hpp"
#include "core/result.hpp"

namespace ccoll {

struct IdContents {
  std::string address;  ///< of the store: "host:port"
  std::string token;    ///< of the store, and of the job's connections
  std::uint64_t number = 0;
};

/// Refuses bytes that are no id, of another version, damaged, or of another host's loopback.
Result<IdContents> read_id(const UniqueId& id);

/// The ranks of one id at its store. An id makes one communicator: each rank comes once.
class IdMeeting {
 public:
  static Result<IdMeeting> come(const IdContents& id, int rank, int size,
                                std::chrono::milliseconds timeout, const TlsOptions& tls);
  const std::shared_ptr<Store>& store() const { return store_; }
  /// This rank needs the store no more. The last rank leaves one key behind, which marks the id as
  /// used. Never throws: keys left behind are not worth a failure.
  void over(int size) const noexcept;

 private:
  explicit IdMeeting(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  std::shared_ptr<Store> store_;
};

}  // namespace ccoll
