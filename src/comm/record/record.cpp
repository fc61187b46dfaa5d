// SPDX-License-Identifier: Apache-2.0
#include "comm/record/record.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/describe.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"
#include "system/variables.hpp"
#include "system/write_all.hpp"

namespace ccoll {
namespace {

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
                         const Times& times) {
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

/// The obstacle of one dump is likely that of the others, too.
struct LostDumps {
  std::atomic<bool> are_told{false};
};

}  // namespace

void Record::begin(std::vector<std::uint32_t> host_of) {
  tracing_ = Tracing::begin(whose_, std::move(host_of));
  directory_ = read_variable("CCOLL_DUMP").value_or("");
}

void Record::slept(Owned owned, std::vector<Rank> awaited, std::chrono::nanoseconds time) noexcept {
  try {
    std::ranges::sort(awaited);
    awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
    losses_(owned).slept(awaited, time);
  } catch (...) {
    // No memory: this one is not counted.
  }
}

dump::Dump Record::dump_of_calls(std::string_view reason) const {
  const auto times = this->times();
  dump::Dump made;
  made.job = fmt::format("{:x}", whose_.job);
  made.communicator = fmt::format("{:x}", whose_.communicator);
  made.name = whose_.name;
  made.rank = whose_.rank;
  made.size = whose_.size;
  made.job_rank = whose_.job_rank;
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

dump::Dump Record::dump(Owned owned, std::string_view reason, const Standing& standing,
                        std::optional<dump::Failed> failure) const {
  const auto& recorder = recorder_(owned);
  auto made = dump_of_calls(reason);
  const auto times = this->times();
  made.under_way = standing.under_way;
  made.finished = standing.finished - standing.on_device.size();
  for (auto& call : made.last_calls) {
    const bool ended = call.number < standing.finished && !standing.on_device.contains(call.number);
    call.state = ended ? dump::State::ended : failure ? dump::State::failed : dump::State::begun;
    // Times so far come from another look at the clocks: the two differ by about a short call.
    if (const auto at = recorder.end_of_call(call.number); at && ended)
      call.ended = std::clamp(times.of(*at), call.begun, made.at);
  }
  made.messages = recorder.messages();
  for (auto number = made.messages - std::min(made.messages, FlightRecorder::kMessages);
       number < made.messages; number++) {
    made.last_messages.push_back(message_of(number, recorder.message_at(number), times));
    if (const auto at = recorder.end_of_message(number))
      made.last_messages.back().ended = times.of(*at);
  }
  made.failure = std::move(failure);
  return made;
}

std::string Record::path() const {
  return fmt::format("{}/ccoll.{:x}.{:x}.{}{}", directory_, whose_.job, whose_.communicator,
                     whose_.rank, dump::kExtension);
}

void Record::request(std::string reason) {
  reason_.with([&](std::string& last) { last = std::move(reason); });
  requested_.store(true, std::memory_order_release);
}

std::string Record::requested_reason() const {
  return reason_.with([](const std::string& last) { return last; });
}

bool Record::admits(std::string_view reason) {
  if (failure_dumped_ && (reason == kFailureDump || reason == kBesideDump)) return false;
  if (reason == kFailureDump) failure_dumped_ = true;
  return true;
}

void Record::write(const dump::Dump& made) const {
  auto written = write_file(path(), dump::to_json(made));
  if (!written && !Runtime::one<LostDumps>().are_told.exchange(true))
    log().warn("CCOLL_DUMP: {}; the flight recorder of this rank is not saved",
               written.error().message);
}

void Record::forget_locks() {
  labels_.forget_lock();
  reason_.forget_lock();
}

}  // namespace ccoll
