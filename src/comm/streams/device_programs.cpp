// SPDX-License-Identifier: Apache-2.0
#include "comm/streams/device_programs.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "comm/call/reductions.hpp"
#include "comm/failures/remarks.hpp"
#include "comm/progress/owner.hpp"
#include "core/deadline.hpp"
#include "engine/describe.hpp"
#include "gpu/exchange_door.hpp"
#include "system/log.hpp"

namespace ccoll {
namespace {

/// Most programs of a communicator, which keeps them; other calls go through the host.
constexpr std::size_t kMostPrograms = 1024;

/// Ranks that make something together have made it by this time, or not at all.
constexpr std::chrono::seconds kForGroup{30};

/// This process's numbers of its ranks' GPUs; none if they have only one.
Result<std::vector<int>> devices_of(std::span<const PeerAddress> ranks) {
  constexpr int kMostGpus = 64;
  std::map<std::uint32_t, int> numbers;
  for (const PeerAddress& rank : ranks) numbers.emplace(rank.device, -1);
  if (numbers.size() == 1) return std::vector<int>();
  for (int device = 0; device < kMostGpus; device++) {
    const auto known = numbers.find(device_number(device));
    if (known != numbers.end()) known->second = device;
  }
  std::vector<int> devices;
  for (const PeerAddress& rank : ranks) {
    devices.push_back(numbers.at(rank.device));
    if (devices.back() >= 0) continue;
    return fail(ErrorKind::unsupported, "rank {}'s GPU is not among the process's first {}",
                devices.size() - 1, kMostGpus);
  }
  return devices;
}

device::CopyUse copy_use_of(const DeviceShare& share) {
  switch (share.copies) {
    case DeviceCopies::by_size:
      return device::CopyUse::by_size;
    case DeviceCopies::always:
      return device::CopyUse::always;
    case DeviceCopies::never:
      return device::CopyUse::never;
  }
  return device::CopyUse::by_size;
}

}  // namespace

// The way

Status DevicePrograms::find_device() {
  // Communicators that are made from this one take theirs when they need it.
  if (with_.self.options().device.ordinal == kHost || with_.self.id() != with_.self.job())
    return {};
  const auto staging = with_.in_streams.staging(with_.self.options().device.ordinal);
  if (staging) return {};
  return fail(staging.error().kind, "DeviceOptions::ordinal is {}: {}",
              with_.self.options().device.ordinal, staging.error().message);
}

Status DevicePrograms::find_way() {
  if (with_.self.options().device.ordinal == kHost) return {};
  std::vector<PeerAddress> ranks;
  for (const auto job_rank : with_.self.group().job_ranks())
    ranks.push_back(with_.self.member()->table()[job_rank]);
  pick_ = pick_device_way(ranks, with_.self.options().device.way);
  // If ranks differ, the first one with a GPU tells it for all.
  const auto first = std::ranges::find_if(ranks, [](const auto& each) { return each.device != 0; });
  if (pick_.way == DeviceWay::host && first - ranks.begin() == with_.self.rank()) log_way();
  while (pick_.way != DeviceWay::host && !has_way()) CCOLL_TRY(make_way(ranks));
  if (has_way() || with_.self.id() != with_.self.job()) return {};
  return with_.in_streams.staging(with_.self.options().device.ordinal).and_then([](auto* staging) {
    return staging->take_ring();
  });
}

void DevicePrograms::log_way() const {
  log().info("{}: collectives in CUDA's streams go by {}: {}", with_.self.name(),
             to_string(pick_.way), pick_.why);
}

/// Makes the picked way, or picks the next one to be made.
Status DevicePrograms::make_way(std::span<const PeerAddress> ranks) {
  auto staging = with_.in_streams.shared_staging(with_.self.options().device.ordinal);
  const bool is_group = pick_.way == DeviceWay::steps || pick_.is_across;
  // In a team, the others do not hear of this rank's shortage: no rank has a communicator then.
  if (!staging && !is_group) return tl::unexpected(std::move(staging.error()));
  const auto made =
      is_group ? make_group(std::move(staging)) : join_team(std::move(*staging), ranks);
  if (with_.self.rank() == 0 && made) log_way();
  if (made) return {};
  const auto fall_back = [&](DeviceWay way, const Failure& why) {
    pick_.way = way;
    pick_.why = why.message;
    pick_.next = DeviceWay::host;
    pick_.is_across = false;
  };
  if (const Owner owned(with_.progress); with_.failures.broken(owned)) {
    // No way is of use, and its first call tells why.
    fall_back(DeviceWay::host, made.error());
    return {};
  }
  const auto next = pick_.next;
  if (with_.self.rank() == 0 && next == DeviceWay::host)
    log().warn("{}: collectives of {} ranks' GPUs go through the host: {}", with_.self.name(),
               with_.self.size(), made.error().message);
  if (with_.self.rank() == 0 && next != DeviceWay::host)
    log().warn("{}: collectives of {} ranks' GPUs go by {}, if they can, not by {}: {}",
               with_.self.name(), with_.self.size(), to_string(next), to_string(pick_.way),
               made.error().message);
  fall_back(next, made.error());
  return {};
}

Status DevicePrograms::join_team(std::shared_ptr<device::Staging> staging,
                                 std::span<const PeerAddress> ranks) {
  auto devices = devices_of(ranks);
  if (!devices) return tl::unexpected(std::move(devices.error()));
  auto way = device::join_team({.communicator = with_.self.id(),
                                .rank = with_.self.rank(),
                                .size = with_.self.size(),
                                .devices = std::move(*devices),
                                .workspace_bytes = with_.self.options().device.workspace_bytes,
                                .most_blocks = pick_.share.blocks,
                                .copies = copy_use_of(pick_.share),
                                .staging = std::move(staging)});
  return way.map([&](auto& made) { take_way(std::move(made)); });
}

void DevicePrograms::take_way(std::shared_ptr<device::DeviceWay> way) {
  // The service thread may break the communicator just now.
  const Owner owned(with_.progress);
  with_.in_streams.take_way(std::move(way));
}

/// All ranks make each of its calls, even if something fails on some: they agree at the end.
Status DevicePrograms::make_group(Result<std::shared_ptr<device::Staging>> staging) {
  auto door = device::ExchangeDoor::open();
  std::vector<device::DoorAddress> addresses(with_.self.size());
  const auto own = door && staging ? door->address() : device::DoorAddress{};
  CCOLL_TRY(with_.exchange.tell_all_at_start(kDeviceWay, &own, addresses.data(), sizeof own));
  Result<std::shared_ptr<device::DeviceWay>> way;
  if (!staging) {
    way = tl::unexpected(std::move(staging.error()));
  } else if (!door) {
    way = tl::unexpected(std::move(door.error()));
  } else if (std::ranges::find(addresses, device::DoorAddress{}) != addresses.end()) {
    way = fail(ErrorKind::unsupported, "another rank could not begin");
  } else {
    way = meet_for_group(*door, addresses, std::move(*staging));
  }
  struct Verdict {
    bool is_well = false;
    std::array<char, 247> reason{};
  };
  Verdict mine;
  mine.is_well = way.has_value();
  if (!way) way.error().message.copy(mine.reason.data(), mine.reason.size() - 1);
  std::vector<Verdict> verdicts(with_.self.size());
  CCOLL_TRY(with_.exchange.tell_all_at_start(kDeviceWay, &mine, verdicts.data(), sizeof mine));
  const auto odd = std::ranges::find(verdicts, false, &Verdict::is_well);
  if (odd != verdicts.end())
    return fail(ErrorKind::unsupported, "rank {}: {}", odd - verdicts.begin(), odd->reason.data());
  take_way(std::move(*way));
  return {};
}

Result<std::shared_ptr<device::DeviceWay>> DevicePrograms::meet_for_group(
    device::ExchangeDoor& door, std::span<const device::DoorAddress> addresses,
    std::shared_ptr<device::Staging> staging) const {
  const auto deadline =
      deadline_after(std::min<std::chrono::milliseconds>(with_.self.options().timeout, kForGroup));
  const auto exchange = door.meet(with_.self.rank(), addresses, deadline);
  if (!exchange) return tl::unexpected(exchange.error());
  return device::make_group({.rank = with_.self.rank(),
                             .size = with_.self.size(),
                             .workspace_bytes = with_.self.options().device.workspace_bytes,
                             .by_kernels = pick_.way == DeviceWay::team,
                             .copies = copy_use_of(pick_.share),
                             .most_blocks = pick_.share.blocks,
                             .staging = std::move(staging)},
                            **exchange, deadline);
}

// Programs

Result<OnDevice> DevicePrograms::program_for(const Submitting& submitting, const Call& call) {
  const auto asked = signature_of(call);
  const auto key = with_.planner.key_of(call, asked);
  const auto known = known_.lock();
  auto& programs = known->programs;
  auto found = programs.find(key);
  if (found == programs.end()) {
    if (programs.size() >= kMostPrograms) return OnDevice{};
    auto loaded = caught([&] { return load(submitting, call, asked, *known); });
    if (!loaded && loaded.error().kind == ErrorKind::invalid_argument)
      return tl::unexpected(std::move(loaded.error()));
    if (!loaded) {
      const Owner owned(with_.progress);
      CCOLL_TRY(with_.failures.usable(owned));
      with_.failures.threw(owned, loaded.error());
      return tl::unexpected(*with_.failures.broken(owned));
    }
    found = programs.emplace(key, std::move(*loaded)).first;
  }
  return found->second;
}

Result<OnDevice> DevicePrograms::load(const Submitting& /*submitting*/, const Call& call,
                                      const Signature& asked, Known& known) {
  // Devices combine in float32, but what they hand on is of the call's type.
  if (call.algorithm && is_widened(call, *call.algorithm, with_.self.size())) return OnDevice{};
  const auto problem = with_.planner.problem_of(call);
  auto forcing = with_.planner.forced(call.algorithm);
  forcing.order = averages_narrow_floats(call)
                      ? CombineOrder::at_once
                      : order_of(call.op, call.type, with_.self.options().deterministic);
  Failure refusal;
  for (const auto& limits : device_limits(pick_.way)) {
    const auto chosen = choose(problem, size_of(call.type),
                               device_costs(pick_.way, with_.self.size(), pick_.gpus, limits),
                               limited(forcing, limits));
    auto program = with_.in_streams.device_way()->load(
        {.problem = problem,
         .choice = chosen.choice,
         .schedule = [&](Rank of) { return make_program(problem, chosen.choice, of); },
         .type = call.type,
         .op = call.op.op()});
    if (program) {
      log_choice(with_.self.rank(), asked, chosen);
      return OnDevice{chosen.choice.algorithm, std::move(*program)};
    }
    if (program.error().kind != ErrorKind::unsupported)
      return tl::unexpected(std::move(program.error()));
    refusal = std::move(program.error());
  }
  if (with_.self.rank() == 0) {
    const bool is_first = !std::exchange(known.has_logged_refusal, true);
    log().at(is_first ? LogLevel::warn : LogLevel::info,
             "{}: {} goes through the host, not by {}: {}{}", with_.self.name(), describe(asked),
             to_string(pick_.way), refusal.message,
             is_first ? "; further such calls are logged by CCOLL_LOG=info" : "");
  }
  return OnDevice{};
}

}  // namespace ccoll
