// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/message_calls.hpp"

#include <exception>
#include <utility>

#include "comm/progress/spin_policy.hpp"

namespace ccoll {
namespace {

/// The message's rank and tag, of which a receive may take any.
Pattern pattern_of(const MessageRequest& request) {
  Pattern pattern;
  pattern.from = static_cast<Rank>(request.peer);
  if (request.tag != kAnyTag) pattern.tag = static_cast<std::uint32_t>(request.tag);
  return pattern;
}

}  // namespace

std::size_t MessageCalls::most_short_bytes() const {
  // Over wires, the general way places a longer message as it arrives, which the short way cannot.
  constexpr std::size_t kMostOverWires = 4 << 10;
  return with_.planner.shares_memory() ? kMaxEagerBytes : kMostOverWires;
}

Result<std::shared_ptr<Work::State>> MessageCalls::begin(Owned owned, Batch messages,
                                                         std::chrono::milliseconds timeout) {
  // Allocate first: a throw after one has begun would free the buffers that it uses.
  auto work = std::make_shared<Work::State>(
      Work::State{with_.progress.weak(), {messages.begin(), messages.end()}});
  CCOLL_TRY(post(owned, messages, timeout));
  return work;
}

Status MessageCalls::post(Owned owned, Batch messages, std::chrono::milliseconds timeout) try {
  auto& failures = with_.failures;
  CCOLL_TRY(failures.usable(owned));
  const auto now = with_.progress.now();
  for (const auto& message : messages) {
    with_.limits.set(owned, *message, now, timeout);
    if (auto posted = with_.under_way.messages(owned).post(message); !posted) {
      failures.break_with(owned, posted.error(), true);
      return posted;
    }
  }
  with_.progress.begin(owned);
  return {};
} catch (...) {
  with_.failures.threw(owned, failure_of(std::current_exception()));
  return tl::unexpected(*with_.failures.broken(owned));
}

Result<std::shared_ptr<Work::State>> MessageCalls::run(Owned owned, Batch messages,
                                                       std::chrono::milliseconds timeout) {
  return with_.progress.finish(owned, begin(owned, messages, timeout));
}

Result<std::optional<Received>> MessageCalls::look(Owned owned, const Pattern& pattern) {
  auto& failures = with_.failures;
  const auto& verdict = failures.verdict();
  CCOLL_TRY(failures.usable(owned));
  auto found = failures.guarded(owned, [&] {
    auto looked = std::optional(with_.under_way.messages(owned).look(pattern));
    if (!*looked) failures.failed(owned, looked->error());
    return looked;
  });
  // It may have read messages, and owes answers to their senders.
  with_.progress.settle(owned);
  // Nobody else may be there to see the suspicion's grace end.
  if (verdict.suspicion(owned)) with_.progress.operations().supervise(owned, with_.progress.now());
  if (verdict.broken(owned)) return tl::unexpected(*verdict.broken(owned));
  if (verdict.suspicion(owned)) return std::nullopt;
  return std::move(*found);
}

bool MessageCalls::send_short(Owned owned, const MessageRequest& request) {
  if (!with_.failures.is_calm(owned)) return false;
  const auto to = static_cast<Rank>(request.peer);
  const auto tag = static_cast<std::uint32_t>(request.tag);
  const auto begun = with_.record.trace_time();
  const auto bytes = bytes_of(request.block);
  if (bytes > most_short_bytes()) return false;
  const auto sent = with_.failures.guarded(owned, [&] {
    return std::optional(with_.under_way.messages(owned).send_now(
        {to, tag}, static_cast<const std::byte*>(request.block.data), bytes, request.block.type));
  });
  if (!sent || *sent == Messages::Sent::no) return false;
  with_.progress.begin(owned);
  if (*sent == Messages::Sent::flushing) {
    flush(owned, request);
    return true;
  }
  with_.record.message_is_over(owned, {true, request.block.type, to, tag, bytes, begun});
  return true;
}

void MessageCalls::flush(Owned owned, const MessageRequest& request) {
  auto& failures = with_.failures;
  // The message is sent: without memory to wait for it, the communicator breaks.
  const auto work = failures.guarded(owned, [&] {
    auto operation = std::make_shared<MessageOperation>();
    operation->pattern = pattern_of(request);
    operation->bytes = bytes_of(request.block);
    operation->type = request.block.type;
    with_.limits.set(owned, *operation, with_.progress.now(), {});
    Work::State state{with_.progress.weak(), {operation}};
    with_.under_way.messages(owned).finish(operation);
    return std::optional(std::move(state));
  });
  if (!work) raise(with_.self.for_caller(*failures.broken(owned)));
  with_.progress.wait(owned, *work, Clock::time_point::max());
  if (const auto* failure = work->failure()) raise(*failure);
}

bool MessageCalls::recv_short(Owned owned, const MessageRequest& request, Received& got) {
  if (!with_.failures.is_calm(owned)) return false;
  const auto pattern = pattern_of(request);
  const auto bytes = bytes_of(request.block);
  const auto begun = with_.record.trace_time();
  auto patience =
      SpinPolicy::short_one(with_.planner.is_oversubscribed(), with_.planner.shares_memory());
  const auto keeps_polling = [&] { return !with_.progress.is_wanted() && patience.keep_polling(); };
  const auto is_made = with_.failures.guarded(owned, [&] {
    const auto found = with_.under_way.messages(owned).take_now(
        pattern, static_cast<std::byte*>(request.block.data), bytes, most_short_bytes(),
        request.block.type, got, keeps_polling);
    if (found != Messages::Found::message) return std::optional(false);
    with_.progress.begin(owned);
    const auto tag = static_cast<std::uint32_t>(got.tag);
    with_.record.message_is_over(owned,
                                 {false, request.block.type, *pattern.from, tag, got.bytes, begun});
    return std::optional(true);
  });
  return is_made.value_or(false);
}

}  // namespace ccoll
