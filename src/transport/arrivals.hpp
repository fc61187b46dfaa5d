// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Links that peers have opened to this rank and this rank has not. The transports add them, the
/// communicator takes them. So it learns which peers call, without opening a link from each.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "system/locks.hpp"
#include "transport/link.hpp"
#include "transport/waiter.hpp"

namespace ccoll {

class Arrivals {
 public:
  /// For the links of that communicator and lane to rank `to` of the job.
  Arrivals(std::uint64_t communicator, std::uint32_t to, std::uint16_t lane,
           std::shared_ptr<Waiter> waiter)
      : communicator_(communicator), to_(to), lane_(lane), waiter_(std::move(waiter)) {}

  std::uint64_t communicator() const { return communicator_; }
  std::uint32_t to() const { return to_; }
  bool concern(const LinkId& id) const {
    return id.communicator == communicator_ && id.to == to_ && id.lane == lane_;
  }

  /// That rank of the job has opened such a link. Called by a transport, on any thread.
  void add(std::uint32_t from) {
    from_.with([&](auto& all) {
      all.push_back(from);
      any_.store(true);  // the news of Waiter::prepare's protocol, therefore seq_cst
    });
    waiter_->ring_if_asleep();
  }
  /// The senders since the last take(). Their links may have been opened here meanwhile.
  std::vector<std::uint32_t> take() {
    if (!any_.load()) return {};
    return from_.with([&](auto& all) {
      any_.store(false);
      return std::exchange(all, {});
    });
  }

 private:
  const std::uint64_t communicator_;
  const std::uint32_t to_;
  const std::uint16_t lane_;
  const std::shared_ptr<Waiter> waiter_;
  std::atomic<bool> any_{false};  // whether from_ has any; spares take() the lock
  Guarded<std::vector<std::uint32_t>> from_;
};

}  // namespace ccoll
