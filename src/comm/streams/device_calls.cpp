// SPDX-License-Identifier: Apache-2.0
// Collectives that devices make by themselves: which way there is, the programs, and the call. The
// host runs a barrier beside each, under the call's signature and number, once the stream has
// reached it. So ranks that make other calls, or none, are found as always, and the device is not
// held up.
#include <algorithm>
#include <array>
#include <map>
#include <thread>
#include <utility>

#include "comm/api/call_group.hpp"
#include "comm/failures/remarks.hpp"
#include "comm/progress/owner.hpp"
#include "comm/streams/streams.hpp"
#include "core/deadline.hpp"
#include "engine/describe.hpp"
#include "gpu/exchange_door.hpp"
#include "system/log.hpp"

namespace ccoll {
namespace {

/// Most programs of a communicator, which keeps them; other calls go through the host.
constexpr std::size_t kMostPrograms = 1024;

/// How long a communicator that ends waits for hosts to end calls that the device has ended.
constexpr std::chrono::seconds kForHosts{1};

/// How often a thread looks while its stream waits at a call that other ranks do not make.
constexpr std::chrono::milliseconds kBetweenEntries{1};

/// Ranks that make something together have made it by this time, or not at all.
constexpr std::chrono::seconds kForGroup{30};

/// Host memory among a call's buffers, which is copied.
std::vector<device::MemoryRange> host_ranges_of(const BufferView& view, std::uint64_t bytes) {
  if (bytes == 0 || view.data == nullptr || device::device_of(view.data)) return {};
  return {{view.data, bytes}};
}

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

Status Streams::find_device() {
  knows_devices_ = with_.self.options().device.ordinal != kHost || device::is_cuda_in_use();
  // Communicators that are made from this one take theirs when they need it.
  if (with_.self.options().device.ordinal == kHost || with_.self.id() != with_.self.job())
    return {};
  const auto staging = calls_.staging(with_.self.options().device.ordinal);
  if (staging) return {};
  return fail(staging.error().kind, "DeviceOptions::ordinal is {}: {}",
              with_.self.options().device.ordinal, staging.error().message);
}

Status Streams::find_device_way() {
  if (with_.self.options().device.ordinal == kHost) return {};
  std::vector<PeerAddress> ranks;
  for (const auto job_rank : with_.self.group().job_ranks())
    ranks.push_back(with_.self.member()->table()[job_rank]);
  device_way_ = pick_device_way(ranks, with_.self.options().device.way);
  // If ranks differ, the first one with a GPU tells it for all.
  const auto first = std::ranges::find_if(ranks, [](const auto& each) { return each.device != 0; });
  if (device_way_.way == DeviceWay::host && first - ranks.begin() == with_.self.rank())
    log_device_way();
  while (device_way_.way != DeviceWay::host && !has_device_way()) CCOLL_TRY(make_device_way(ranks));
  if (has_device_way() || with_.self.id() != with_.self.job()) return {};
  return calls_.staging(with_.self.options().device.ordinal).and_then([](auto* staging) {
    return staging->take_ring();
  });
}

void Streams::log_device_way() const {
  log().info("{}: collectives in CUDA's streams go by {}: {}", with_.self.name(),
             to_string(device_way_.way), device_way_.why);
}

/// Makes the picked way, or picks the next one to be made.
Status Streams::make_device_way(std::span<const PeerAddress> ranks) {
  auto staging = calls_.shared_staging(with_.self.options().device.ordinal);
  const bool is_group = device_way_.way == DeviceWay::steps || device_way_.is_across;
  // In a team, the others do not hear of this rank's shortage: no rank has a communicator then.
  if (!staging && !is_group) return tl::unexpected(std::move(staging.error()));
  const auto made =
      is_group ? make_group(std::move(staging)) : join_team(std::move(*staging), ranks);
  if (with_.self.rank() == 0 && made) log_device_way();
  if (made) return {};
  const auto fall_back = [&](DeviceWay way, const Failure& why) {
    device_way_.way = way;
    device_way_.why = why.message;
    device_way_.next = DeviceWay::host;
    device_way_.is_across = false;
  };
  if (const Owner owned(with_.progress); with_.failures.broken(owned)) {
    // No way is of use, and its first call tells why.
    fall_back(DeviceWay::host, made.error());
    return {};
  }
  const auto next = device_way_.next;
  if (with_.self.rank() == 0 && next == DeviceWay::host)
    log().warn("{}: collectives of {} ranks' GPUs go through the host: {}", with_.self.name(),
               with_.self.size(), made.error().message);
  if (with_.self.rank() == 0 && next != DeviceWay::host)
    log().warn("{}: collectives of {} ranks' GPUs go by {}, if they can, not by {}: {}",
               with_.self.name(), with_.self.size(), to_string(next), to_string(device_way_.way),
               made.error().message);
  fall_back(next, made.error());
  return {};
}

Status Streams::join_team(std::shared_ptr<device::Staging> staging,
                          std::span<const PeerAddress> ranks) {
  auto devices = devices_of(ranks);
  if (!devices) return tl::unexpected(std::move(devices.error()));
  auto way = device::join_team({.communicator = with_.self.id(),
                                .rank = with_.self.rank(),
                                .size = with_.self.size(),
                                .devices = std::move(*devices),
                                .workspace_bytes = with_.self.options().device.workspace_bytes,
                                .most_blocks = device_way_.share.blocks,
                                .copies = copy_use_of(device_way_.share),
                                .staging = std::move(staging)});
  return way.map([&](auto& made) { take_device_way(std::move(made)); });
}

void Streams::take_device_way(std::shared_ptr<device::DeviceWay> way) {
  // The service thread may break the communicator just now.
  const Owner owned(with_.progress);
  calls_.take_way(std::move(way));
}

/// All ranks make each of its calls, even if something fails on some: they agree at the end.
Status Streams::make_group(Result<std::shared_ptr<device::Staging>> staging) {
  auto door = device::ExchangeDoor::open();
  std::vector<device::DoorAddress> addresses(with_.self.size());
  const auto own = door && staging ? door->address() : device::DoorAddress{};
  CCOLL_TRY(tell_all_at_start(&own, addresses.data(), sizeof own));
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
  CCOLL_TRY(tell_all_at_start(&mine, verdicts.data(), sizeof mine));
  const auto odd = std::ranges::find(verdicts, false, &Verdict::is_well);
  if (odd != verdicts.end())
    return fail(ErrorKind::unsupported, "rank {}: {}", odd - verdicts.begin(), odd->reason.data());
  take_device_way(std::move(*way));
  return {};
}

Result<std::shared_ptr<device::DeviceWay>> Streams::meet_for_group(
    device::ExchangeDoor& door, std::span<const device::DoorAddress> addresses,
    std::shared_ptr<device::Staging> staging) const {
  const auto deadline =
      deadline_after(std::min<std::chrono::milliseconds>(with_.self.options().timeout, kForGroup));
  const auto exchange = door.meet(with_.self.rank(), addresses, deadline);
  if (!exchange) return tl::unexpected(exchange.error());
  return device::make_group({.rank = with_.self.rank(),
                             .size = with_.self.size(),
                             .workspace_bytes = with_.self.options().device.workspace_bytes,
                             .by_kernels = device_way_.way == DeviceWay::team,
                             .copies = copy_use_of(device_way_.share),
                             .most_blocks = device_way_.share.blocks,
                             .staging = std::move(staging)},
                            **exchange, deadline);
}

Status Streams::tell_all_at_start(const void* mine, void* everyones, std::size_t bytes) {
  auto call = all_gather_of(mine, everyones, bytes);
  call.shown_as = kDeviceWay;
  const Owner owned(with_.progress);
  return with_.collective_calls.run(owned, call);
}

// Programs

Result<const Streams::OnDevice*> Streams::device_program_for(const Call& call) {
  const auto asked = signature_of(call);
  const auto key = with_.planner.key_of(call, asked);
  auto found = programs_.find(key);
  if (found == programs_.end()) {
    if (programs_.size() >= kMostPrograms) return nullptr;
    auto loaded = caught([&] { return load_device_program(call, asked); });
    if (!loaded && loaded.error().kind == ErrorKind::invalid_argument)
      return tl::unexpected(std::move(loaded.error()));
    if (!loaded) {
      const Owner owned(with_.progress);
      CCOLL_TRY(with_.failures.usable(owned));
      with_.failures.threw(owned, loaded.error());
      return tl::unexpected(*with_.failures.broken(owned));
    }
    found = programs_.emplace(key, std::move(*loaded)).first;
  }
  return found->second.program ? &found->second : nullptr;
}

Result<Streams::OnDevice> Streams::load_device_program(const Call& call, const Signature& asked) {
  // Devices combine in float32, but what they hand on is of the call's type.
  if (call.algorithm && is_widened(call, *call.algorithm, with_.self.size())) return OnDevice{};
  const auto problem = with_.planner.problem_of(call);
  auto forcing = with_.planner.forced(call.algorithm);
  forcing.order = averages_narrow_floats(call)
                      ? CombineOrder::at_once
                      : order_of(call.op, call.type, with_.self.options().deterministic);
  Failure refusal;
  for (const auto& limits : device_limits(device_way_.way)) {
    const auto chosen =
        choose(problem, size_of(call.type),
               device_costs(device_way_.way, with_.self.size(), device_way_.gpus, limits),
               limited(forcing, limits));
    auto program = calls_.device_way()->load(
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
    const bool is_first = !std::exchange(has_logged_refusal_, true);
    log().at(is_first ? LogLevel::warn : LogLevel::info,
             "{}: {} goes through the host, not by {}: {}{}", with_.self.name(), describe(asked),
             to_string(device_way_.way), refusal.message,
             is_first ? "; further such calls are logged by CCOLL_LOG=info" : "");
  }
  return OnDevice{};
}

// The call

Result<std::optional<Work>> Streams::begin_on_device(const Call& call,
                                                     std::optional<cudaStream_t> stream,
                                                     const OnDevice& on_device) {
  const auto width = size_of(call.type);
  const auto in = elems_of(call, Buffer::input, with_.self.rank(), with_.self.size()) * width;
  const auto out = elems_of(call, Buffer::output, with_.self.rank(), with_.self.size()) * width;
  const auto copied_input = needs_input_copy(call) ? in : 0;
  const device::Copied copied[] = {
      {host_ranges_of(call.input, in - copied_input), host_ranges_of(call.output, out)}};
  const auto together = calls_.device_way()->is_entered_together();
  const auto prepare = [&](StreamCall& watched, const std::shared_ptr<device::StreamOp>& stream_op,
                           bool is_captured) -> std::optional<StreamedCall> {
    // One graph has all ranks' parts of it: none can be missing, or be of another call.
    if (is_captured && together) return std::nullopt;
    watched.limit_device(call.timeout.count() > 0 ? call.timeout : with_.self.options().timeout);
    return begun_in_order({call, {.on_device = on_device.algorithm}}, watched, stream_op,
                          is_captured);
  };
  std::unique_lock lock(calls_.submission());
  const auto submitted = submit({.parts = copied,
                                 .stream = stream,
                                 .program = on_device.program,
                                 .input = call.kind == Kind::barrier ? nullptr : call.input.data,
                                 .output = call.kind == Kind::barrier ? nullptr : call.output.data,
                                 .in_place = call.in_place && copied_input == 0,
                                 .copied_input = copied_input},
                                {std::make_shared<StreamOperation>()}, prepare);
  if (!submitted) return tl::unexpected(submitted.error());
  if (!together) return put(*submitted, stream, call.label);
  if (call_group::is_open()) {
    put_off(*submitted, call, stream);
    return submitted->work;
  }
  CCOLL_TRY(enqueue(*submitted));
  lock.unlock();
  const Entering entering{submitted->is_captured, Clock::now(), limit_of(call)};
  for (;;) {
    const auto entry = enter(*submitted->stream_op, entering, Clock::now() + kPublishAfter);
    if (!entry) return tl::unexpected(entry.error());
    if (*entry == device::Entry::apart) return std::nullopt;
    if (*entry == device::Entry::entered) return submitted->work;
  }
}

Clock::time_point Streams::limit_of(const Call& call) const {
  return deadline_after(call.timeout.count() > 0 ? call.timeout : with_.self.options().timeout);
}

/// A thread that makes several ranks' calls would otherwise wait in the first one for the others.
void Streams::put_off(const Submitted& submitted, const Call& call,
                      std::optional<cudaStream_t> stream) {
  struct Entrance {
    Submitted submitted;
    Call call;
    std::string label;
    std::optional<cudaStream_t> stream;
    std::optional<Entering> entering = std::nullopt;  ///< once it is enqueued
    // From then on:
    std::shared_ptr<TimedMutex> mutex = nullptr;  ///< of a communicator that may end before
    std::unique_lock<TimedMutex> lock = {};
  };
  const auto off =
      std::make_shared<Entrance>(Entrance{submitted, call, std::string(call.label), stream});
  off->call.label = off->label;
  auto go_on = [this, off](Clock::time_point until) -> Result<bool> {
    if (with_.progress.is_forked()) {
      off->lock.release();  // it is the parent's
      return tl::unexpected(with_.failures.news().value());
    }
    if (!off->entering) {
      off->mutex = calls_.device_submission();
      off->lock = std::unique_lock(*off->mutex, until);
      if (!off->lock) return false;
      const std::lock_guard lock(calls_.submission());
      CCOLL_TRY(enqueue(off->submitted));
      off->entering = {off->submitted.is_captured, Clock::now(), limit_of(off->call)};
    }
    const auto entry = enter(*off->submitted.stream_op, *off->entering, until);
    if (!entry) return tl::unexpected(entry.error());
    if (*entry != device::Entry::apart) return *entry == device::Entry::entered;
    return begin_by_host(off->call, off->stream).map([](const Work&) { return true; });
  };
  call_group::put_off({.communicator = with_.progress.weak(with_.self),
                       .stream = stream,
                       .label = off->label,
                       .go_on = std::move(go_on),
                       .together = with_.self.id()});
}

Result<device::Entry> Streams::enter(device::StreamOp& stream_op, const Entering& entering,
                                     Clock::time_point until) {
  const auto entry = stream_op.enter(until);
  if (entry && *entry != device::Entry::waiting) {
    // All ranks have made it: from here on only streams are awaited.
    stream_op.count_as_reached(false);
    return entry;
  }
  const bool differs = !entry && entry.error().kind == ErrorKind::mismatch && !entering.is_captured;
  std::optional<Failure> why;
  {
    const Owner owned(with_.progress);
    const auto now = Clock::now();
    if (const auto usable = with_.failures.usable(owned); !usable) {
      why = usable.error();
    } else {
      // From here on its time limit counts, and ranks that make other calls are looked for.
      if (!calls_.may_come_from_graphs() && (differs || now - entering.since >= kPublishAfter))
        stream_op.count_as_reached(true);
      const bool has_begun = !entering.is_captured && stream_op.reached();
      // The barrier beside it finds which calls differ, and what their callers call them.
      if (differs && has_begun) return device::Entry::entered;
      const bool may_wait = (entry || differs) && (has_begun || now < entering.limit);
      if (!may_wait) why = not_entered(owned, entry, entering.is_captured);
    }
  }
  if (why) {
    // The call's part in its stream is over soon, and behind any work launched meanwhile.
    (void)stream_op.enter(Clock::now());
    return tl::unexpected(std::move(*why));
  }
  if (differs) std::this_thread::sleep_until(std::min(until, Clock::now() + kBetweenEntries));
  return device::Entry::waiting;
}

Failure Streams::not_entered(Owned owned, const Result<device::Entry>& entry, bool is_captured) {
  // If another rank has ended it for all, that rank tells why; here it is an earlier failure.
  const bool is_told = !entry && calls_.device_way()->is_aborted();
  if (is_told || (!entry && entry.error().kind == ErrorKind::mismatch)) {
    with_.failures.break_with(owned, entry.error(), true);
  } else if (!entry) {
    with_.failures.threw(owned, entry.error());
  } else {
    with_.failures.break_with(owned,
                              {ErrorKind::timed_out,
                               fmt::format("not all ranks of the process have made a call {}",
                                           is_captured ? "while it was captured"
                                                       : "that this rank's stream has not reached"),
                               std::nullopt},
                              true);
  }
  return is_told ? with_.failures.usable(owned).error() : *with_.failures.broken(owned);
}

void Streams::end_what_devices_made(Owned owned) {
  with_.progress.operations().advance(
      owned, Attention::awaited);  // begins calls that streams have reached
  with_.progress.wait(owned, {with_.progress.weak(), calls_.left_behind(owned)},
                      Clock::now() + kForHosts);
}

bool Streams::advance(Owned owned) {
  std::optional<Failure> trouble;
  const bool moved = calls_.advance(owned, trouble);
  if (trouble) device_failed(owned, *trouble);
  return moved;
}

void Streams::device_failed(Owned owned, const Failure& failure) {
  // The communicator may have heard of this failure meanwhile.
  if (with_.failures.usable(owned)) with_.failures.break_with(owned, failure, true);
}

}  // namespace ccoll
