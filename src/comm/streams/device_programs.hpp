// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part that knows how devices make its collectives: the way that the ranks found
/// at start, and the program of each call. Without a GPU, devices make none.

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>

#include "comm/call/call.hpp"
#include "comm/collectives/plan_cache.hpp"
#include "comm/collectives/planner.hpp"
#include "comm/failures/failures.hpp"
#include "comm/groups/exchange.hpp"
#include "comm/groups/self.hpp"
#include "comm/progress/progress.hpp"
#include "comm/streams/device_ways.hpp"
#include "comm/streams/stream_calls.hpp"
#include "core/result.hpp"
#include "system/locks.hpp"

namespace ccoll {
namespace device {
class ExchangeDoor;
struct DoorAddress;
}  // namespace device

/// How devices make a call.
struct OnDevice {
  Algorithm algorithm;
  std::shared_ptr<const device::DeviceProgram> program;  ///< null: the host makes it
};

class DevicePrograms {
 public:
  /// The parts that the way is found with, and programs are loaded.
  struct With {
    const Self& self;
    const Planner& planner;
    Progress& progress;
    Failures& failures;
    Exchange& exchange;
    StreamCalls& in_streams;
  };
  explicit DevicePrograms(const With& with) : with_(with) {}

  /// Takes the resources that calls in streams need, if this rank has a GPU.
  Status find_device();
  /// Finds how devices make collectives. Collective if they use stream steps.
  Status find_way();
  /// How devices make collectives, and why that way was picked.
  const DeviceWayPick& pick() const { return pick_; }
  bool has_way() const { return with_.in_streams.device_way() != nullptr; }

  /// For a checked call that suits_devices(), if there is a way; alike on all ranks, which ask in
  /// the order of their calls.
  Result<OnDevice> program_for(const Submitting& submitting, const Call& call);

 private:
  struct Known {
    std::unordered_map<Signature, OnDevice, SignatureHash> programs;
    bool has_logged_refusal = false;  ///< about a call that fits no device
  };

  void log_way() const;
  Status make_way(std::span<const PeerAddress> ranks);
  Status join_team(std::shared_ptr<device::Staging> staging, std::span<const PeerAddress> ranks);
  void take_way(std::shared_ptr<device::DeviceWay> way);
  Status make_group(Result<std::shared_ptr<device::Staging>> staging);
  Result<std::shared_ptr<device::DeviceWay>> meet_for_group(
      device::ExchangeDoor& door, std::span<const device::DoorAddress> addresses,
      std::shared_ptr<device::Staging> staging) const;
  Result<OnDevice> load(const Submitting& submitting, const Call& call, const Signature& asked,
                        Known& known);

  const With with_;
  DeviceWayPick pick_;  // immutable after find_way
  Guarded<Known> known_;
};

}  // namespace ccoll
