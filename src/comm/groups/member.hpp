// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank's membership of a job: its listener, control connections and transports, shared by all
/// communicators of that rank. Leaves when the last of them goes.

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "ccoll/communicator.hpp"
#include "comm/groups/tuning.hpp"
#include "control/control.hpp"
#include "net/service.hpp"
#include "transport/chime.hpp"
#include "transport/inproc_residence.hpp"
#include "transport/transport_set.hpp"

namespace ccoll {

namespace net {
class Listener;
}
class Dispatcher;

/// Most of CommunicatorOptions::heartbeat.
inline constexpr std::chrono::milliseconds kMaxHeartbeat = std::chrono::hours(24);

/// PeerAddress::device; 0 for a GPU that cannot be used: its user is told why.
std::uint32_t device_number(int device);

class Member {
 public:
  /// Meets the other ranks at `store`; `is_whole_job`: see Control::Membership. Collective.
  static Result<std::shared_ptr<Member>> join(Store& store, std::uint32_t rank, std::uint32_t size,
                                              const CommunicatorOptions& options,
                                              bool is_whole_job = false);
  /// A member of a job whose ranks have met, as `control` knows: tests make such ones.
  Member(std::uint32_t rank, std::shared_ptr<Control> control,
         std::shared_ptr<TransportSet> transports);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// A communicator of this rank begins, or ends. With the last one the rank says goodbye, on the
  /// caller's thread and before exit returns: the process may end right after.
  void enter() { communicators_.fetch_add(1); }
  void exit();

  std::uint32_t rank() const { return rank_; }
  const std::vector<PeerAddress>& table() const { return control_->table(); }
  Control& control() const { return *control_; }
  const std::shared_ptr<net::Service>& service() const { return service_; }
  const std::shared_ptr<TransportSet>& transports() const { return transports_; }
  /// This rank's communicators sleep at these.
  Chimes& chimes() { return chimes_; }

  /// Cores per rank on the fullest machine, from the table: the same number on every rank.
  double cores_per_rank() const { return cores_per_rank_; }
  /// Rank 0's tuning, on every rank.
  const Tuning& tuning() const { return tuning_; }
  /// "rank 3 (10.0.0.2, pid 4711)".
  std::string name_of(std::uint32_t rank) const;

 private:
  static Result<std::shared_ptr<Member>> join_as(PeerAddress address, Store& store,
                                                 std::uint32_t rank, std::uint32_t size,
                                                 const CommunicatorOptions& options,
                                                 bool is_whole_job);
  Member();
  void introduce(const CommunicatorOptions& options, const std::string& store) const;

  std::uint32_t rank_ = 0;
  double cores_per_rank_ = 1;  // immutable after join
  Tuning tuning_;              // immutable after join
  std::atomic<int> communicators_{0};
  Chimes chimes_;
  std::shared_ptr<net::Service> service_;
  std::shared_ptr<Control> control_;
  std::shared_ptr<TransportSet> transports_;
  std::unique_ptr<net::Listener> listener_;
  std::optional<inproc::Residence> residence_;  ///< goes before the listener, by which it is known
  std::shared_ptr<Dispatcher> dispatcher_;
};

}  // namespace ccoll
