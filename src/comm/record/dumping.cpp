// SPDX-License-Identifier: Apache-2.0
// The flight recorder's dumps: a communicator's report of its last operations and of those under
// way, to its caller and to files.
#include <unistd.h>

#include <algorithm>
#include <asio/steady_timer.hpp>

#include "comm/api/implementation.hpp"
#include "comm/record/dump/dump.hpp"
#include "comm/record/dump_signal.hpp"
#include "engine/describe.hpp"
#include "system/log.hpp"
#include "system/write_all.hpp"

namespace ccoll {
namespace {

/// A dump does not show more operations under way than this.
constexpr std::size_t kMostUnderWay = 64;

/// The owner handles a request when it looks at its limits. If it never does, because it is in a
/// callback or stopped, the dump is a partial one after this long.
constexpr std::chrono::milliseconds kBetweenTries{10};
constexpr int kTries = 50;

dump::Call call_of(std::uint64_t number, const History::Recorded& recorded) {
  const auto& signature = recorded.signature;
  auto words = words_of(signature);
  dump::Call call;
  call.number = number;
  call.text = describe(signature);
  call.count = signature.count;
  if (!words.type.empty())
    call.bytes = signature.count * size_of(static_cast<DataType>(signature.type));
  call.kind = std::move(words.kind);
  call.type = std::move(words.type);
  call.op = std::move(words.op);
  call.root = words.root;
  call.algorithm = to_string(static_cast<Algorithm>(signature.algorithm));
  return call;
}

dump::Message message_of(std::uint64_t number, const FlightRecorder::Message& recorded,
                         const FlightRecorder::Times& times) {
  dump::Message message;
  message.number = number;
  message.is_send = recorded.is_send;
  if (recorded.peer != FlightRecorder::kAny) message.peer = recorded.peer;
  if (recorded.tag != FlightRecorder::kAny) message.tag = recorded.tag;
  message.bytes = recorded.bytes;
  message.type = to_string(recorded.type);
  message.state = static_cast<dump::State>(recorded.state);
  message.begun = times.of(recorded.begun);
  return message;
}

/// Warns once: the same obstacle is likely for the other dumps.
void write(const std::string& path, const std::string& text) {
  static std::atomic<bool> told{false};
  if (auto written = write_file(path, text); !written && !told.exchange(true))
    log().warn("CCOLL_DUMP: {}; the flight recorder of this rank is not saved",
               written.error().message);
}

}  // namespace

std::vector<dump::Peer> Communicator::Implementation::peers(const std::vector<Rank>& ranks) const {
  std::vector<dump::Peer> peers;
  for (const auto rank : ranks) {
    const auto& address = member_->table()[group_.job_rank(rank)];
    peers.push_back({rank, ip_text(address), address.pid});
  }
  return peers;
}

dump::UnderWay Communicator::Implementation::under_way(const CollectiveOperation& operation,
                                                       const FlightRecorder::Times& times) const {
  dump::UnderWay shown;
  shown.call = operation.run.sequence;
  shown.text = name_of(operation);
  shown.begun = times.of(operation.begun);
  shown.standing = not_begun(operation);
  if (!operation.started) return shown;
  shown.standing = operation.plan->standing();
  if (const auto at = operation.plan->stand())
    shown.stand = dump::Stand{at->lane, at->step, at->steps, at->window, at->windows};
  shown.waits_for = peers(operation.plan->awaited());
  return shown;
}

dump::UnderWay Communicator::Implementation::under_way_on_device(
    std::uint64_t number, const FlightRecorder::Times& times) const {
  dump::UnderWay shown;
  shown.call = number;
  shown.standing = "the host has done its part";
  const auto recorded = history_.recorded(number);
  if (!recorded) return shown;  // so many calls ago
  shown.text = name_of(number, recorded->signature, label_in(labels_.of(number)));
  shown.begun = times.of(recorded->begun);
  return shown;
}

Communicator::Implementation::Standing Communicator::Implementation::standing_as_owner() const {
  const FlightRecorder::Times times(recorder_);
  Standing standing;
  // A call that was refused before it began has been recorded, but has no number.
  const bool none_has_number = collectives_.empty() || !collectives_.front()->is_numbered;
  standing.finished = none_has_number ? sequence_ : collectives_.front()->run.sequence;
  // A forked child asks nothing of its parent's streams.
  const auto on_device =
      is_forked() ? std::vector<LeftOnDevice>() : stream_calls_.left_on_device_as_owner();
  for (const auto& left : on_device) {
    if (left.beside != nullptr) continue;
    standing.on_device.insert(left.number);
    if (standing.under_way.size() >= kMostUnderWay) continue;
    standing.under_way.push_back(under_way_on_device(left.number, times));
    standing.under_way.back().device = left.standing;
  }
  for (const auto& operation : collectives_) {
    if (standing.under_way.size() >= kMostUnderWay) break;
    standing.under_way.push_back(under_way(*operation, times));
    const auto left = std::ranges::find(on_device, operation.get(), &LeftOnDevice::beside);
    if (left != on_device.end()) standing.under_way.back().device = left->standing;
  }
  for (const auto& operation : messages_.pending()) {
    if (standing.under_way.size() >= kMostUnderWay) break;
    dump::UnderWay shown;
    shown.text = messages_.name_of(*operation);
    shown.standing = messages_.standing(*operation);
    shown.begun = times.of(operation->begun);
    shown.waits_for = peers(messages_.awaited(*operation));
    standing.under_way.push_back(std::move(shown));
  }
  return standing;
}

void Communicator::Implementation::keep_standing_as_owner() noexcept {
  try {
    at_break_ = standing_as_owner();
  } catch (...) {
    // Memory ran out, which may be why it breaks.
    at_break_ = Standing{};
  }
}

dump::Dump Communicator::Implementation::dump_of_calls(std::string_view reason) const {
  const FlightRecorder::Times times(recorder_);
  dump::Dump made;
  made.job = fmt::format("{:x}", job());
  made.communicator = fmt::format("{:x}", id_);
  made.name = name_;
  made.rank = rank();
  made.size = size();
  made.job_rank = group_.job_rank(rank());
  made.host = host_name();
  made.process = static_cast<std::uint64_t>(getpid());
  made.reason = reason;
  made.at = times.now();
  made.calls = history_.calls();
  for (auto number = made.calls - std::min(made.calls, History::kCalls); number < made.calls;
       number++) {
    const auto recorded = history_.recorded(number);
    if (!recorded) continue;
    made.last_calls.push_back(call_of(number, *recorded));
    made.last_calls.back().begun = times.of(recorded->begun);
    made.last_calls.back().label = shown_label(label_in(labels_.of(number)));
  }
  return made;
}

dump::Dump Communicator::Implementation::dump_as_owner(std::string_view reason) const {
  auto made = dump_of_calls(reason);
  const FlightRecorder::Times times(recorder_);
  const auto& standing = at_break_ ? *at_break_ : standing_as_owner();
  const auto failure = first_failure();
  made.under_way = standing.under_way;
  made.finished = standing.finished - standing.on_device.size();
  for (auto& call : made.last_calls) {
    const bool ended = call.number < standing.finished && !standing.on_device.contains(call.number);
    call.state = ended ? dump::State::ended : failure ? dump::State::failed : dump::State::begun;
    // Times so far come from another look at the clocks: the two differ by about a short call.
    if (const auto at = recorder_.end_of_call(call.number); at && ended)
      call.ended = std::clamp(times.of(*at), call.begun, made.at);
  }
  made.messages = recorder_.messages();
  for (auto number = made.messages - std::min(made.messages, FlightRecorder::kMessages);
       number < made.messages; number++) {
    made.last_messages.push_back(message_of(number, recorder_.message_at(number), times));
    if (const auto at = recorder_.end_of_message(number))
      made.last_messages.back().ended = times.of(*at);
  }
  if (failure) {
    made.failure =
        dump::Failed{std::string(to_string(failure->kind)), for_caller(*failure).message, {}};
    if (failure->culprit) made.failure->culprit = group_.rank_of(*failure->culprit);
  }
  return made;
}

std::string Communicator::Implementation::dump() {
  const Owner owner(*this);
  return dump::to_json(dump_as_owner("asked"));
}

std::string Communicator::Implementation::dump_path() const {
  return fmt::format("{}/ccoll.{:x}.{:x}.{}{}", dump_directory_, job(), id_, rank(),
                     dump::kExtension);
}

void Communicator::Implementation::write_dump_as_owner(std::string_view reason) noexcept {
  dump_wanted_.store(false, std::memory_order_relaxed);
  // The file is the parent's.
  if (is_forked()) return;
  if (failure_dumped_ && (reason == kFailureDump || reason == kBesideDump)) return;
  if (reason == kFailureDump) failure_dumped_ = true;
  try {
    write(dump_path(), dump::to_json(dump_as_owner(reason)));
    if (reason == kFailureDump && dump_signal_) dump_signal_->failed(*this);
  } catch (...) {
    // No memory: the failure itself is told all the same.
  }
}

void Communicator::Implementation::request_dump(std::string reason) {
  if (dump_directory_.empty()) return;
  dump_reason_.with([&](std::string& last) { last = std::move(reason); });
  dump_wanted_.store(true, std::memory_order_release);
  waiter_->ring();
  try_to_dump(0);
}

std::string Communicator::Implementation::wanted_dump() const {
  return dump_reason_.with([](const std::string& last) { return last; });
}

void Communicator::Implementation::try_to_dump(int tries) {
  if (!dump_wanted_.load() || closed_.load()) return;
  if (try_own()) {
    const Owner owner(*this, std::adopt_lock);
    return write_dump_as_owner(wanted_dump());
  }
  if (tries >= kTries) {
    if (failure_dumped_) return;
    auto made = dump_of_calls(wanted_dump());
    made.partial = true;
    return write(dump_path(), dump::to_json(made));
  }
  const auto timer =
      std::make_shared<asio::steady_timer>(member_->service()->context(), kBetweenTries);
  timer->async_wait([timer, tries, weak = weak_from_this()](const std::error_code& code) {
    if (const auto self = code ? nullptr : weak.lock()) self->try_to_dump(tries + 1);
  });
}

}  // namespace ccoll
