// SPDX-License-Identifier: Apache-2.0
#include "comm/streams/stream_parts.hpp"

#include <algorithm>
#include <utility>

namespace ccoll {
namespace {

/// More parts are not needed: the first is copied before anything else and the last behind it, and
/// both are short enough.
constexpr std::uint64_t kEnoughParts = 8;
/// Least and largest part, as fractions of the memory: below the one, the overhead of a part
/// exceeds its copies; above the other, the next call has no room.
constexpr std::uint64_t kSmallest = 16, kLargest = 4;

}  // namespace

// A buffer

StreamBuffer::StreamBuffer(const BufferView& view, std::uint64_t elems, std::size_t width)
    : width_(width) {
  const auto add = [&](std::byte* data, std::uint64_t first, std::uint64_t end) {
    if (first < end) segments_.push_back({first, end, data, device::device_of(data).has_value()});
  };
  for_each_stretch(view, elems, width,
                   [&](std::byte* data, std::uint64_t first, std::uint64_t count) {
                     add(data, first, first + count);
                   });
}

bool StreamBuffer::has_device_memory() const {
  return std::ranges::any_of(segments_, &Segment::is_of_device);
}

std::vector<Stretch> StreamBuffer::whole() const {
  if (segments_.empty()) return {};
  return {{0, segments_.back().end}};
}

template <typename Use>
void StreamBuffer::each_piece(std::span<const Stretch> stretches, Use use) const {
  for (const auto& [first, elems] : stretches) {
    const auto end = first + elems;
    for (auto segment = std::ranges::upper_bound(segments_, first, {}, &Segment::end);
         segment != segments_.end() && segment->first < end; ++segment) {
      const auto begin = std::max(first, segment->first);
      use(begin, std::min(end, segment->end) - begin,
          segment->data + (begin - segment->first) * width_, segment->is_of_device);
    }
  }
}

std::vector<device::MemoryRange> StreamBuffer::device_ranges(
    std::span<const Stretch> stretches) const {
  std::vector<device::MemoryRange> ranges;
  each_piece(stretches, [&](std::uint64_t, std::uint64_t elems, std::byte* data, bool is_device) {
    if (is_device) ranges.push_back({data, elems * width_});
  });
  return ranges;
}

std::uint64_t StreamBuffer::staged_bytes(std::span<const Stretch> stretches) const {
  std::uint64_t bytes = 0;
  for (const auto& range : device_ranges(stretches)) bytes += device::staged_bytes(range.bytes);
  return bytes;
}

BufferView StreamBuffer::on_host(std::span<const Stretch> stretches,
                                 const device::StreamOp& stream_op, std::size_t part) const {
  BufferView view;
  each_piece(stretches, [&](std::uint64_t first, std::uint64_t, std::byte* data, bool is_device) {
    view.segments.push_back({first, is_device ? stream_op.on_host(data, part) : data});
  });
  if (view.segments.empty()) return view;
  view.data = view.segments.front().data;
  const bool is_whole = stretches.size() == 1 && stretches.front() == whole().front();
  if (is_whole && view.segments.size() == 1) view.segments.clear();
  return view;
}

// A run

PartedRun::PartedRun(std::shared_ptr<const StreamParts> parts, PlanRun& run)
    : parts_(std::move(parts)) {
  begin_part(run);
}

bool PartedRun::go_on(PlanRun& run) {
  const bool is_news = !std::exchange(is_over_, true);
  if (is_news) parts_->stream_op->end_parts(part_ + 1);
  if (parts_->stream_op->parts_reached() <= part_ + 1) return is_news;
  ++part_;
  is_over_ = false;
  begin_part(run);
  return true;
}

void PartedRun::begin_part(PlanRun& run) const {
  const auto& part = parts_->parts[part_];
  run.input = part.input;
  run.output = part.output;
  run.open_windows = part.end;
}

// A call

DividedCall::DividedCall(const Call& call, Rank rank, Rank size)
    : input_(call.input, elems_of(call, Buffer::input, rank, size), size_of(call.type)),
      output_(call.output, elems_of(call, Buffer::output, rank, size), size_of(call.type)),
      in_place_(call.in_place),
      parts_({{input_.whole(), output_.whole()}}) {}

std::uint64_t DividedCall::bytes_of(const Part& part) const {
  const auto in = input_.staged_bytes(part.input), out = output_.staged_bytes(part.output);
  return in_place_ ? std::max(in, out) : in + out;
}

bool DividedCall::is_large(std::uint64_t room) const {
  return bytes_of(parts_.front()) > room / kSmallest;
}

void DividedCall::divide(const Windows& windows, std::uint64_t room) {
  const auto part_of = [&](std::uint64_t begin, std::uint64_t end) {
    return Part{windows.stretches(Buffer::input, begin, end),
                windows.stretches(Buffer::output, begin, end), end};
  };
  const auto all = windows.count();
  const auto wanted = std::clamp(bytes_of(parts_.front()) / kEnoughParts, room / kSmallest,
                                 std::max(room / kSmallest, room / kLargest));
  const auto in_window = std::max<std::uint64_t>(1, bytes_of(part_of(0, 1)));
  const auto most = std::max<std::uint64_t>(1, wanted / in_window);
  const auto parts = (all + most - 1) / most;
  if (parts < 2) return;
  const auto in_each = (all + parts - 1) / parts;
  parts_.clear();
  for (std::uint64_t begin = 0; begin < all; begin += in_each)
    parts_.push_back(part_of(begin, std::min(all, begin + in_each)));
}

std::vector<device::Copied> DividedCall::copied() const {
  std::vector<device::Copied> copied;
  for (const auto& part : parts_)
    copied.push_back({input_.device_ranges(part.input), output_.device_ranges(part.output)});
  return copied;
}

StreamParts DividedCall::on_host(std::shared_ptr<device::StreamOp> stream_op) const {
  StreamParts made{std::move(stream_op), {}};
  for (std::size_t i = 0; i < parts_.size(); i++)
    made.parts.push_back({input_.on_host(parts_[i].input, *made.stream_op, i),
                          output_.on_host(parts_[i].output, *made.stream_op, i), parts_[i].end});
  return made;
}

}  // namespace ccoll
