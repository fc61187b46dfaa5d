// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The requests of a queue pair: numbered in order, posted, and completed in order. Counts them
/// against the room that the device's queue has, and watches that they are confirmed.

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "core/result.hpp"
#include "transport/verbs/device_pair.hpp"
#include "transport/verbs/errors.hpp"
#include "transport/verbs/offers.hpp"
#include "transport/verbs/slot_counts.hpp"
#include "transport/verbs/watchdog.hpp"

namespace ccoll::verbs {

class SendQueue {
 public:
  /// Last words: of one end, of an end that nobody takes, and of both.
  static constexpr std::uint32_t kLeaves = 3;
  static constexpr std::uint32_t kMostPosted = 4 * kSlots;
  /// The payload in the receiver's memory, and the head.
  static constexpr std::uint32_t kWritesOfSlice = 2;
  /// Slices plus credits, offers and last words.
  static constexpr std::uint32_t kRequests =
      kMostPosted + kWritesOfSlice + kSlots / kCreditBatch + kOffers + kLeaves;

  explicit SendQueue(DevicePair& device) : device_(device) {}

  /// Requests that were numbered, and those of them that have completed.
  std::uint64_t posted() const { return posted_; }
  std::uint64_t completed() const { return completed_; }
  bool is_idle() const { return posted_ == completed_; }
  bool has_room_for_slice() const { return outstanding() < kMostPosted; }
  /// Whether a credit or an offer fits into the queue, beside a slice that was promised room. If
  /// the peer's device confirms late, more words than kRequests provides for may be due.
  bool has_room_for_word() const { return outstanding() < kRequests - kLeaves - kWritesOfSlice; }

  /// A write, which is the next to be posted.
  ibv_send_wr next(ibv_wr_opcode opcode) {
    ibv_send_wr request{};
    request.wr_id = ++posted_;
    request.opcode = opcode;
    return request;
  }
  /// Posts it, and those that are chained to it. Returns the failure.
  std::optional<Failure> post(ibv_send_wr& first) {
    const int code = device_.post(first);
    if (code == 0) return std::nullopt;
    return failure_to_post("to send", code, device_.path());
  }
  /// That request is confirmed, and so are all before it.
  void complete(std::uint64_t id) { completed_ = id; }
  /// Call before each sleep: fails if the device neither confirms nor gives up what was posted.
  /// `target` returns memory of the peer, as its address and key.
  template <typename Target>
  std::optional<Failure> watch(Target target) {
    const auto advice = watchdog_.look(posted_, completed_, device_.settings());
    if (advice == Watchdog::Advice::give_up)
      return failure_of_stalled(Watchdog::patience(device_.settings()), device_.path_now());
    // If there is no room for a question, enough signalled requests are outstanding.
    if (advice == Watchdog::Advice::wait || !has_room_for_word()) return std::nullopt;
    // This empty write is signalled once it and all before it are confirmed.
    auto request = next(IBV_WR_RDMA_WRITE);
    request.send_flags = IBV_SEND_SIGNALED;
    std::tie(request.wr.rdma.remote_addr, request.wr.rdma.rkey) = target();
    return post(request);
  }

 private:
  std::uint64_t outstanding() const { return posted_ - completed_; }

  DevicePair& device_;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  Watchdog watchdog_;
};

}  // namespace ccoll::verbs
