// SPDX-License-Identifier: Apache-2.0
// The public face of messages: arguments checked, operations begun and waited for, failures thrown.
#include <algorithm>
#include <array>

#include "ccoll/communicator.hpp"
#include "comm/api/roads.hpp"
#include "comm/api/session.hpp"
#include "comm/call/arguments.hpp"
#include "comm/call/call_group.hpp"
#include "comm/call/extent.hpp"
#include "comm/call/memory_rows.hpp"
#include "comm/messages/message_calls.hpp"
#include "comm/progress/owner.hpp"

namespace ccoll {
namespace {

using What = MessageRequest::What;

/// Up to this many elements, the size in bytes does not overflow, whatever the type.
constexpr std::size_t kMostElements = SIZE_MAX / 2 / sizeof(double);

Result<Pattern> pattern_of(std::string_view call, int peer, int tag, bool may_be_any, Rank size) {
  const bool any_rank = may_be_any && peer == kAnyRank, any_tag = may_be_any && tag == kAnyTag;
  if (!any_rank && (peer < 0 || static_cast<Rank>(peer) >= size))
    return fail(ErrorKind::invalid_argument, "{}{}",
                no_such_rank(fmt::format("{}: rank", call), peer, size),
                may_be_any ? ", or kAnyRank" : "");
  if (!any_tag && tag < 0)
    return fail(ErrorKind::invalid_argument, "{}: the tag is {}: expected 0 or more{}", call, tag,
                may_be_any ? ", or kAnyTag" : "");
  Pattern pattern;
  if (!any_rank) pattern.from = static_cast<Rank>(peer);
  if (!any_tag) pattern.tag = static_cast<std::uint32_t>(tag);
  return pattern;
}

/// Checks the request and returns its pattern.
Result<Pattern> pattern_of(const MessageRequest& request, Rank size) {
  const bool sends = request.what == What::send;
  const auto call = sends ? "send" : "recv";
  const auto& block = request.block;
  CCOLL_TRY(check_type(call, block.type));
  CCOLL_TRY(check_rows(call, "buffer", block));
  if (block.count > kBeyondMemory / size_of(block.type))
    return fail(ErrorKind::invalid_argument, "{}: {} elements are more than memory can hold", call,
                block.count);
  if (block.count > 0 && block.data == nullptr)
    return fail(ErrorKind::invalid_argument,
                "{}: the buffer is null, {} elements are expected there", call, block.count);
  return pattern_of(call, request.peer, request.tag, !sends, size);
}

Result<std::shared_ptr<MessageOperation>> operation_of(const MessageRequest& request, Rank size,
                                                       std::string_view label) {
  const auto pattern = pattern_of(request, size);
  if (!pattern) return tl::unexpected(pattern.error());
  const bool sends = request.what == What::send;
  auto operation = std::make_shared<MessageOperation>();
  operation->what = sends ? MessageOperation::What::send : MessageOperation::What::recv;
  operation->pattern = *pattern;
  auto* const data = static_cast<std::byte*>(request.block.data);
  if (sends)
    operation->input = data;
  else
    operation->output = data;
  operation->bytes = bytes_of(request.block);
  if (!is_contiguous(request.block)) {
    operation->row_bytes = request.block.row_length * size_of(request.block.type);
    operation->stride_bytes = request.block.stride * size_of(request.block.type);
  }
  operation->type = request.block.type;
  operation->label = label;
  if (!sends) operation->received.emplace();
  return operation;
}

/// Whether all that is received is apart from all else, seen without a look at single rows.
bool are_clearly_apart(std::span<const MessageRequest> requests) {
  const auto rows_of = [](const MessageRequest& request) {
    const auto& block = request.block;
    return rows_at(static_cast<const std::byte*>(block.data), block.count, size_of(block.type),
                   is_contiguous(block) ? 0 : block.row_length, block.stride, 0);
  };
  std::vector<Rows> rows;
  rows.reserve(requests.size());
  for (const auto& request : requests) rows.push_back(rows_of(request));
  return all_neighbours(rows, [&](std::size_t i, std::size_t j) {
    const bool writes = requests[i].what == What::recv || requests[j].what == What::recv;
    return !writes || are_apart(rows[i], rows[j]);
  });
}

/// A receive may overlap neither a send nor another receive.
Status check_overlaps(std::string_view call, std::span<const MessageRequest> requests) {
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    bool written;
  };
  if (requests.size() < 2 || are_clearly_apart(requests)) return {};
  std::vector<Range> ranges;
  ranges.reserve(requests.size());
  for (const auto& request : requests) {
    const bool written = request.what == What::recv;
    const auto& block = request.block;
    const bool has_rows = !is_contiguous(block);
    const BufferView::Segment buffer{0, static_cast<std::byte*>(block.data),
                                     has_rows ? block.row_length : 0, block.stride};
    const auto width = size_of(block.type);
    const auto add = [&](const std::byte* begin, std::uint64_t, std::uint64_t elems) {
      ranges.push_back({begin, begin + elems * width, written});
    };
    for_each_stretch(buffer, 0, block.count, width, add);
  }
  std::ranges::sort(ranges, {}, &Range::begin);
  const std::byte *end = nullptr, *written_end = nullptr;
  for (const auto& range : ranges) {
    if (range.begin < (range.written ? end : written_end))
      return fail(ErrorKind::invalid_argument, "{}: the receive buffer overlaps {}", call,
                  call == "send_recv" ? "the send buffer" : "a buffer of another request");
    end = std::max(end, range.end);
    if (range.written) written_end = std::max(written_end, range.end);
  }
  return {};
}

Result<std::vector<std::shared_ptr<MessageOperation>>> operations_of(
    const Session& communicator, std::string_view call, std::span<const MessageRequest> requests,
    const CallOptions& options) {
  std::vector<std::shared_ptr<MessageOperation>> operations;
  operations.reserve(requests.size());
  for (const auto& request : requests) {
    auto operation = operation_of(request, communicator.self().size(), options.label);
    if (!operation) return tl::unexpected(operation.error());
    operations.push_back(std::move(*operation));
  }
  CCOLL_TRY(check_overlaps(call, requests));
  CCOLL_TRY(check_timeout(call, options.timeout));
  return operations;
}

/// Messages that can be sent and received.
struct CheckedMessages {
  // Another thread may close the communicator meanwhile.
  const std::shared_ptr<Session> communicator;
  std::span<const MessageRequest> requests;
  std::vector<std::shared_ptr<MessageOperation>> operations;
  const CallOptions& options;

  bool is_for_stream() const { return options.stream || communicator->streams().are_for(requests); }

  /// They have been checked; the options are those of the batch's first ones.
  Work in_stream_of_group() {
    auto batch = call_group::open_batch(communicator, options.stream);
    if (batch == nullptr) {
      batch = std::make_shared<call_group::Batch>(
          call_group::Batch{options, std::string(options.label), {}});
      batch->options.label = batch->label;
      const auto begin = [batch, its = communicator.get()](Clock::time_point) {
        return operations_of(*its, "batch", batch->requests, batch->options)
            .and_then([&](auto made) {
              return its->streams().begin(std::move(made), batch->options.timeout,
                                          batch->options.stream);
            })
            .map([](const Work&) { return true; })
            .map_error(its->self().teller(batch->label));
      };
      call_group::put_off(
          {.communicator = communicator, .stream = options.stream, .go_on = begin, .batch = batch});
    }
    batch->requests.insert(batch->requests.end(), requests.begin(), requests.end());
    return {};
  }

  Work by_stream(Until until) {
    auto work = value(
        communicator->streams().begin(std::move(operations), options.timeout, options.stream));
    if (until == Until::done && !options.stream) work.wait();
    return work;
  }

  Work by_queue(Until until) {
    auto& calls = communicator->message_calls();
    const Owner owned(communicator->progress(), communicator->under_way());
    Work work(value(until == Until::begun ? calls.begin(owned, operations, options.timeout)
                                          : calls.run(owned, operations, options.timeout)));
    if (until == Until::begun)
      communicator->progress().round(owned);
    else if (const auto* const failure = work.state().failure())
      raise(*failure);
    return work;
  }

  template <typename T>
  T value(Result<T> result) const {
    return communicator->self().value_or_raise(std::move(result), options.label);
  }
};

/// Messages as their caller asks for them.
struct MessagesRequest {
  // Another thread may close the communicator meanwhile.
  const std::shared_ptr<Session> communicator;
  std::string_view call;
  std::span<const MessageRequest> requests;
  const CallOptions& options;

  static bool at_once() { return false; }
  CheckedMessages checked() const {
    auto operations = operations_of(*communicator, call, requests, options);
    return {communicator, requests,
            communicator->self().value_or_raise(std::move(operations), options.label), options};
  }
};

/// Whether such a blocking call only begins: in a group or a stream, data comes after it has
/// returned.
bool only_begins(const CallOptions& options) { return options.stream || call_group::is_open(); }

/// Whether a message may go the short way. Not so if an argument is wrong, which checked() reports.
bool has_short_way(const MessageRequest& request, Rank size) {
  const auto& block = request.block;
  const bool has_any_tag = request.what == What::recv && request.tag == kAnyTag;
  return (block.data != nullptr || block.count == 0) && size_of(block.type) > 0 &&
         is_contiguous(block) && block.count <= kMostElements && request.peer >= 0 &&
         static_cast<Rank>(request.peer) < size && (request.tag >= 0 || has_any_tag);
}

/// A blocking send, a receive, or a receive and a send in this order.
struct BlockingRequest : MessagesRequest {
  std::optional<Received> got = {};  ///< by a receive that was made at once

  /// Sends and receives short messages. What is left to be made remains in `requests`.
  bool at_once() {
    if (has_options(options) || call_group::is_open() || communicator->streams().are_for(requests))
      return false;
    const auto has_way = [size = communicator->self().size()](const MessageRequest& request) {
      return has_short_way(request, size);
    };
    if (!std::ranges::all_of(requests, has_way)) return false;
    const auto &first = requests.front(), &last = requests.back();
    if (requests.size() > 1 &&
        !apart(first.block.data, bytes_of(first.block), last.block.data, bytes_of(last.block)))
      return false;
    auto& calls = communicator->message_calls();
    const Owner owned(communicator->progress(), communicator->under_way());
    if (last.what == What::send) {
      if (!calls.send_short(owned, last)) return false;
      if (requests.size() == 1) return true;
      requests = requests.first(1);
    }
    // Written in place: to copy what has just been written in parts is slow.
    if (calls.recv_short(owned, first, got.emplace())) return true;
    got.reset();
    return false;
  }
};

/// Makes a call with one receive; returns what that got.
Received receive(BlockingRequest&& request) {
  const auto work = submit(request);
  if (request.got) return *request.got;
  return only_begins(request.options) ? Received{} : work.received();
}

}  // namespace

void Communicator::send(const ConstBlock& block, int to, int tag, const CallOptions& options) {
  submit(BlockingRequest{
      {session(), "send", std::array{MessageRequest::send(block, to, tag)}, options}});
}

Work Communicator::send_async(const ConstBlock& block, int to, int tag,
                              const CallOptions& options) {
  return submit(
      MessagesRequest{session(), "send", std::array{MessageRequest::send(block, to, tag)}, options},
      Until::begun);
}

Received Communicator::recv(const Block& block, int from, int tag, const CallOptions& options) {
  return receive(
      {{session(), "recv", std::array{MessageRequest::recv(block, from, tag)}, options}});
}

Work Communicator::recv_async(const Block& block, int from, int tag, const CallOptions& options) {
  return submit(MessagesRequest{session(), "recv",
                                std::array{MessageRequest::recv(block, from, tag)}, options},
                Until::begun);
}

Received Communicator::probe(int from, int tag, const CallOptions& options) {
  const auto communicator = session();
  auto operation = std::make_shared<MessageOperation>();
  operation->what = MessageOperation::What::probe;
  const auto or_raise = [&](auto result) {
    return communicator->self().value_or_raise(std::move(result), options.label);
  };
  or_raise(call_group::refuse_in_one("probe"));
  or_raise(refuse_in_stream("probe", options));
  or_raise(check_timeout("probe", options.timeout));
  operation->pattern = or_raise(pattern_of("probe", from, tag, true, communicator->self().size()));
  operation->received.emplace();
  operation->label = options.label;
  const Owner owned(communicator->progress());
  const Work work(
      or_raise(communicator->message_calls().run(owned, std::array{operation}, options.timeout)));
  return work.received();
}

std::optional<Received> Communicator::try_probe(int from, int tag) {
  const auto communicator = session();
  const auto pattern = communicator->self().value_or_raise(
      pattern_of("try_probe", from, tag, true, communicator->self().size()));
  const Owner owned(communicator->progress());
  return communicator->self().value_or_raise(communicator->message_calls().look(owned, pattern));
}

Received Communicator::send_recv(const ConstBlock& out, int to, const Block& in, int from, int tag,
                                 const CallOptions& options) {
  return receive(
      {{session(), "send_recv",
        std::array{MessageRequest::recv(in, from, tag), MessageRequest::send(out, to, tag)},
        options}});
}

Work Communicator::send_recv_async(const ConstBlock& out, int to, const Block& in, int from,
                                   int tag, const CallOptions& options) {
  return submit(MessagesRequest{session(), "send_recv",
                                std::array{MessageRequest::recv(in, from, tag),
                                           MessageRequest::send(out, to, tag)},
                                options},
                Until::begun);
}

std::vector<Received> Communicator::batch(std::span<const MessageRequest> requests,
                                          const CallOptions& options) {
  const auto work = submit(MessagesRequest{session(), "batch", requests, options});
  std::vector<Received> received;
  if (only_begins(options)) return received;
  for (const auto& operation : work.state().operations)
    if (operation->received) received.push_back(*operation->received);
  return received;
}

Work Communicator::batch_async(std::span<const MessageRequest> requests,
                               const CallOptions& options) {
  return submit(MessagesRequest{session(), "batch", requests, options}, Until::begun);
}

}  // namespace ccoll
