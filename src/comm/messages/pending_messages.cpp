// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/pending_messages.hpp"

#include <algorithm>
#include <cstdint>

namespace ccoll {
namespace {

/// Probes are neither recorded nor traced.
bool is_probe(const MessageOperation& operation) {
  return operation.what == MessageOperation::What::probe;
}
bool is_send(const MessageOperation& operation) {
  return operation.what == MessageOperation::What::send;
}

void record_begin(FlightRecorder* recorder, MessageOperation& operation) {
  if (recorder == nullptr || is_probe(operation)) return;
  operation.record = recorder->message(is_send(operation), operation.bytes,
                                       operation.pattern.from.value_or(FlightRecorder::kAny),
                                       operation.pattern.tag.value_or(FlightRecorder::kAny),
                                       operation.type, FlightRecorder::State::begun);
}

void record_end(FlightRecorder* recorder, const MessageOperation& operation, bool failed) {
  if (recorder == nullptr || is_probe(operation)) return;
  using State = FlightRecorder::State;
  auto* const message =
      recorder->message_ended(operation.record, failed ? State::failed : State::ended);
  if (message == nullptr || failed || !operation.received) return;
  message->peer = static_cast<Rank>(operation.received->from);
  message->tag = static_cast<std::uint32_t>(operation.received->tag);
  message->bytes = operation.received->bytes;
}

void trace_message(Tracing& tracing, const MessageOperation& operation) {
  Tracing::Message message{.is_send = is_send(operation),
                           .type = operation.type,
                           .peer = operation.pattern.from.value_or(0),
                           .tag = operation.pattern.tag.value_or(0),
                           .bytes = operation.bytes,
                           .begun = Tracing::time_of(operation.begun)};
  if (const auto& received = operation.received) {
    message.peer = static_cast<Rank>(received->from);
    message.tag = static_cast<std::uint32_t>(received->tag);
    message.bytes = received->bytes;
  }
  tracing.message(message);
}

}  // namespace

void PendingMessages::begin(const std::shared_ptr<MessageOperation>& operation) {
  operation->position = all_.size();
  all_.push_back(operation);
  if (is_send(*operation)) sends_++;
  record_begin(recorder_, *operation);
  if (operation->pattern.from) counts_[*operation->pattern.from]++;
}

void PendingMessages::name_peer(MessageOperation& operation, Rank peer) {
  if (!operation.pattern.from) counts_[peer]++;
  operation.pattern.from = peer;
}

void PendingMessages::complete(MessageOperation& operation, std::optional<Failure> failure) {
  if (operation.pattern.from) counts_[*operation.pattern.from]--;
  if (is_send(operation)) sends_--;
  // Keep it alive until it says that it is done.
  const auto held = std::move(all_[operation.position]);
  if (operation.position + 1 < all_.size()) {
    all_[operation.position] = std::move(all_.back());
    all_[operation.position]->position = operation.position;
  }
  all_.pop_back();
  record_end(recorder_, *held, failure.has_value());
  if (tracing_ != nullptr && !failure && !is_probe(*held)) trace_message(*tracing_, *held);
  if (failure) held->failure = for_caller_(std::move(*failure), held->label);
  held->end();
  // Set this even if nothing is left: a thread that waits for it must not sleep now.
  has_moved_ = true;
}

void PendingMessages::end_all(const Failure& failure) {
  for (const auto& operation : std::exchange(all_, {})) {
    record_end(recorder_, *operation, true);
    operation->failure = for_caller_(failure, operation->label);
    operation->end();
  }
  std::ranges::fill(counts_, 0);
  sends_ = 0;
}

}  // namespace ccoll
