// SPDX-License-Identifier: Apache-2.0
#include "comm/streams/packer.hpp"

#include <algorithm>
#include <utility>

namespace ccoll {
namespace {

bool is_on_device(const BufferView::Segment& segment) {
  return device::device_of(segment.data).has_value();
}

std::uint64_t reach_of(const device::PackedRows& rows) {
  return (rows.count - 1) * rows.stride_bytes + rows.row_bytes;
}

/// A copy outside a GPU's memory ends all that the process has there.
Status check_all_there(const device::PackedRows& rows) {
  const auto device = device::device_of(rows.rows);
  for (std::uint64_t row = 0; row < rows.count;) {
    const auto* const begin = rows.rows + row * rows.stride_bytes;
    const auto* const last = begin + rows.row_bytes - 1;
    if (device::device_of(begin) != device || device::device_of(last) != device)
      return fail(
          ErrorKind::invalid_argument,
          "a block of {} rows begins in memory of GPU {}, and row {} is elsewhere, at least "
          "in part: expected all of it there",
          rows.count, device.value_or(0), row);
    const auto known = device::bytes_of_allocation_from(begin);
    row += known < rows.row_bytes ? 1 : (known - rows.row_bytes) / rows.stride_bytes + 1;
  }
  return {};
}

}  // namespace

template <typename Byte>
Status Packer::add(device::PackedRows rows, Byte*& place) {
  rows.is_on_device = device::device_of(rows.rows).has_value();
  if (rows.is_on_device) CCOLL_TRY(check_all_there(rows));
  rows_.push_back(rows);
  places_.emplace_back([&place](std::byte* at) { place = at; });
  return {};
}

Status Packer::pack(const Buffer& buffer,
                    const std::function<bool(const BufferView::Segment&)>& is_packed) {
  auto& view = buffer.view;
  const bool is_one = view.segments.size() <= 1;
  if (view.segments.empty()) view.segments.push_back({0, view.data});
  for (std::size_t i = 0; i < view.segments.size(); i++) {
    auto& segment = view.segments[i];
    const auto end = i + 1 < view.segments.size() ? view.segments[i + 1].first : buffer.elems;
    const auto count = end - segment.first;
    if (count == 0 || !is_packed(segment)) continue;
    const auto row = segment.row_elems > 0 ? segment.row_elems : count;
    const auto stride = segment.row_elems > 0 ? segment.stride_elems : count;
    CCOLL_TRY(add({.rows = segment.data,
                   .row_bytes = row * buffer.width,
                   .stride_bytes = stride * buffer.width,
                   .count = count / row,
                   .is_read = !buffer.is_written,
                   .is_written = buffer.is_written},
                  is_one ? view.data : segment.data));
    segment.row_elems = segment.stride_elems = 0;
  }
  if (is_one && view.segments.front().row_elems == 0) view.segments.clear();
  return {};
}

Status Packer::pack(Call& call, Rank rank, Rank size, bool all) {
  const auto width = size_of(call.type);
  const auto has_rows_to_pack = [all](const BufferView::Segment& segment) {
    return segment.row_elems > 0 && (all || is_on_device(segment));
  };
  const Buffer input{call.input, elems_of(call, ccoll::Buffer::input, rank, size), width, false};
  const Buffer output{call.output, elems_of(call, ccoll::Buffer::output, rank, size), width, true};
  CCOLL_TRY(pack(output, has_rows_to_pack));
  const bool is_apart = call.in_place && (!rows_.empty() || std::ranges::any_of(call.input.segments,
                                                                                has_rows_to_pack));
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
  const device::PackedRows rows{.rows = data,
                                .row_bytes = message.row_bytes,
                                .stride_bytes = message.stride_bytes,
                                .count = message.bytes / message.row_bytes,
                                .is_read = true,
                                .is_written = !sends};
  CCOLL_TRY(sends ? add(rows, message.input) : add(rows, message.output));
  message.row_bytes = message.stride_bytes = 0;
  return {};
}

Result<std::shared_ptr<const device::Packing>> Packer::finish(const Room& room) {
  if (rows_.empty()) return nullptr;
  std::uint64_t on_device = 0, on_host = 0;
  std::vector<device::MemoryRange> ranges;
  for (const auto& each : rows_) {
    (each.is_on_device ? on_device : on_host) += device::staged_bytes(each.count * each.row_bytes);
    if (each.is_on_device) ranges.push_back({each.rows, reach_of(each)});
  }
  const auto packing = std::make_shared<device::Packing>();
  std::shared_ptr<std::byte> there, here;
  if (on_device > 0) {
    auto made = room(std::move(ranges), on_device);
    if (!made) return tl::unexpected(std::move(made.error()));
    there = std::move(*made);
  }
  if (on_host > 0) here = {new std::byte[on_host], std::default_delete<std::byte[]>()};
  auto *next_there = there.get(), *next_here = here.get();
  for (std::size_t i = 0; i < rows_.size(); i++) {
    auto& next = rows_[i].is_on_device ? next_there : next_here;
    rows_[i].together = next;
    places_[i](next);
    next += device::staged_bytes(rows_[i].count * rows_[i].row_bytes);
  }
  packing->rows = std::move(rows_);
  packing->rooms = {std::move(there), std::move(here)};
  return packing;
}

}  // namespace ccoll
