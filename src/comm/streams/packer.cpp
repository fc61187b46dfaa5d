// SPDX-License-Identifier: Apache-2.0
#include "comm/streams/packer.hpp"

#include <algorithm>
#include <utility>

namespace ccoll {
namespace {

bool is_on_device(const BufferView::Segment& segment) {
  return device::device_of(segment.data).has_value();
}

/// A copy outside a GPU's memory ends all that the process has there.
Status check_all_rows(const device::PackedRows& packed, std::uint64_t reach) {
  if (reach <= device::bytes_of_allocation_from(packed.rows)) return {};
  const auto device = device::device_of(packed.rows);
  for (std::uint64_t row = 0; row < packed.count; row++) {
    const auto* const begin = packed.rows + row * packed.stride_bytes;
    if (device::device_of(begin) == device &&
        device::device_of(begin + packed.row_bytes - 1) == device)
      continue;
    return fail(
        ErrorKind::invalid_argument,
        "a block begins in memory of GPU {}, and its row {} is elsewhere: expected all rows "
        "there",
        device.value_or(0), row);
  }
  return {};
}

}  // namespace

Result<std::byte*> Packer::together(device::PackedRows packed) {
  const auto reach = (packed.count - 1) * packed.stride_bytes + packed.row_bytes;
  const auto bytes = packed.count * packed.row_bytes;
  packed.is_on_device = device::device_of(packed.rows).has_value();
  if (packed.is_on_device) CCOLL_TRY(check_all_rows(packed, reach));
  auto room = packed.is_on_device ? room_({packed.rows, reach}, bytes)
                                  : std::shared_ptr<std::byte>(new std::byte[bytes],
                                                               std::default_delete<std::byte[]>());
  if (!room) return tl::unexpected(std::move(room.error()));
  if (!made_) made_ = std::make_shared<device::Packing>();
  packed.together = room->get();
  made_->rows.push_back(packed);
  made_->rooms.push_back(std::move(*room));
  return packed.together;
}

Status Packer::pack(const Buffer& buffer,
                    const std::function<bool(const BufferView::Segment&)>& is_packed) {
  auto& [view, elems, width, use] = buffer;
  auto segments = view.segments;
  if (segments.empty()) segments.push_back({0, view.data});
  for (std::size_t i = 0; i < segments.size(); i++) {
    auto& segment = segments[i];
    const auto end = i + 1 < segments.size() ? segments[i + 1].first : elems;
    const auto count = end - segment.first;
    if (count == 0 || !is_packed(segment)) continue;
    const auto row = segment.row_elems > 0 ? segment.row_elems : count;
    const auto stride = segment.row_elems > 0 ? segment.stride_elems : count;
    const auto at = together({.rows = segment.data,
                              .row_bytes = row * width,
                              .stride_bytes = stride * width,
                              .count = count / row,
                              .is_read = use.is_read,
                              .is_written = use.is_written});
    if (!at) return tl::unexpected(at.error());
    segment = {segment.first, *at};
  }
  const bool is_one = segments.size() == 1 && segments.front().row_elems == 0;
  view = {segments.front().data, is_one ? decltype(segments)() : std::move(segments)};
  return {};
}

Status Packer::pack(Call& call, Rank rank, Rank size, bool all) {
  const auto width = size_of(call.type);
  const auto has_rows_to_pack = [all](const BufferView::Segment& segment) {
    return segment.row_elems > 0 && (all || is_on_device(segment));
  };
  const Buffer input{call.input,
                     elems_of(call, ccoll::Buffer::input, rank, size),
                     width,
                     {.is_read = true, .is_written = false}};
  const Buffer output{call.output,
                      elems_of(call, ccoll::Buffer::output, rank, size),
                      width,
                      {.is_read = false, .is_written = true}};
  CCOLL_TRY(pack(output, has_rows_to_pack));
  const bool is_apart =
      call.in_place && (made_ || std::ranges::any_of(call.input.segments, has_rows_to_pack));
  // Memory that takes the place of rows is in place of nothing.
  CCOLL_TRY(
      pack(input, [&](const auto& segment) { return is_apart || has_rows_to_pack(segment); }));
  if (is_apart) call.in_place = false;
  return {};
}

Status Packer::pack(MessageOperation& message) {
  const bool sends = message.what == MessageOperation::What::send;
  auto* const data = sends ? const_cast<std::byte*>(message.input) : message.output;
  if (message.row_bytes == 0 || message.bytes == 0 || !device::device_of(data)) return {};
  // A shorter message leaves the rest of its buffer as it is.
  const auto at = together({.rows = data,
                            .row_bytes = message.row_bytes,
                            .stride_bytes = message.stride_bytes,
                            .count = message.bytes / message.row_bytes,
                            .is_read = true,
                            .is_written = !sends});
  if (!at) return tl::unexpected(at.error());
  if (sends)
    message.input = *at;
  else
    message.output = *at;
  message.row_bytes = message.stride_bytes = 0;
  return {};
}

}  // namespace ccoll
