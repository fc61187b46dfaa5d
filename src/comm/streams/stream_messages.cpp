// SPDX-License-Identifier: Apache-2.0
#include "comm/streams/stream_messages.hpp"

#include <utility>

namespace ccoll {
namespace {

bool sends(const MessageOperation& operation) {
  return operation.what == MessageOperation::What::send;
}

}  // namespace

device::MemoryRange buffer_of(const MessageOperation& operation) {
  auto* const data = sends(operation) ? const_cast<std::byte*>(operation.input) : operation.output;
  return {data, operation.bytes};
}

StreamMessages::StreamMessages(std::span<const std::shared_ptr<MessageOperation>> operations,
                               const std::function<bool(MessageOperation&)>& make_direct) {
  for (const auto& operation : operations) {
    const auto buffer = buffer_of(*operation);
    if (buffer.bytes == 0 || !device::device_of(buffer.data)) continue;
    if (!make_direct(*operation))
      copy_whole(*operation);
    else if (!sends(*operation))
      landed_.add(*operation);
  }
}

void StreamMessages::Buffers::add(MessageOperation& operation) {
  of.push_back(&operation);
  ranges.push_back(buffer_of(operation));
}

void StreamMessages::copy_whole(MessageOperation& operation) {
  whole_.add(operation);
  copied_.reads.push_back(buffer_of(operation));
  // A shorter message leaves the rest of its buffer as it is: that goes to the host and back.
  if (!sends(operation)) copied_.writes.push_back(buffer_of(operation));
}

std::uint64_t StreamMessages::whole_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& range : whole_.ranges) bytes += device::staged_bytes(range.bytes);
  return bytes;
}

StreamMessages StreamMessages::in_pieces(std::size_t most_whole) const {
  StreamMessages made = *this;
  made.copied_ = {};
  for (auto* const operation : std::exchange(made.whole_, {}).of) {
    if (operation->bytes <= most_whole)
      made.copy_whole(*operation);
    else
      (sends(*operation) ? made.lifted_ : made.landed_).add(*operation);
  }
  return made;
}

device::StreamOpRequest StreamMessages::request(std::optional<cudaStream_t> stream) const {
  return {.parts = {&copied_, 1},
          .stream = stream,
          .ends_in_order = false,
          .lifted = lifted_.ranges,
          .landed = landed_.ranges};
}

void StreamMessages::give(const std::shared_ptr<device::StreamOp>& stream_op) const {
  for (auto* const operation : whole_.of) {
    auto* const here = stream_op->on_host(buffer_of(*operation).data, 0);
    if (sends(*operation))
      operation->input = here;
    else
      operation->output = here;
  }
  for (std::size_t i = 0; i < lifted_.of.size(); i++)
    lifted_.of[i]->to_host = {stream_op, stream_op->to_host(i)};
  for (std::size_t i = 0; i < landed_.of.size(); i++)
    landed_.of[i]->to_device = {stream_op, stream_op->to_device(i)};
}

}  // namespace ccoll
