// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/window_places.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "engine/memory_range.hpp"
#include "kernels/stream.hpp"

namespace ccoll {
namespace {

/// Appends elements [first, first + elems) of a buffer that has several segments.
void append(const BufferView& view, std::uint64_t first, std::uint64_t elems,
            std::size_t elem_bytes, std::vector<MemoryRange>& pieces) {
  auto next = std::ranges::upper_bound(view.segments, first, {}, &BufferView::Segment::first);
  while (elems > 0) {
    const auto& segment = *std::prev(next);
    auto here = elems;
    if (next != view.segments.end()) here = std::min(here, next->first - first);
    const auto before = first - segment.first;
    if (segment.row_elems == 0) {
      pieces.push_back({segment.data + before * elem_bytes, here * elem_bytes});
    } else {
      const auto row = before / segment.row_elems, column = before % segment.row_elems;
      pieces.push_back({segment.data + (row * segment.stride_elems + column) * elem_bytes,
                        here * elem_bytes, segment.row_elems * elem_bytes,
                        segment.stride_elems * elem_bytes, column * elem_bytes});
    }
    first += here;
    elems -= here;
    if (next != view.segments.end()) ++next;
  }
}

/// The pieces of memory of the parts' slices in the lane's window, and their bytes.
std::size_t locate(ReadyLane& lane, const BlockLayout& layout, const PlanRun& run,
                   const std::vector<BlockPlace>& parts, std::vector<MemoryRange>& pieces) {
  pieces.clear();
  std::size_t total = 0;
  const auto elem_bytes = layout.elem_bytes();
  const auto first = lane.window * layout.slice_elems();
  for (const auto& part : parts) {
    const auto& extent = layout.of(part);
    if (extent.elems <= first) continue;
    const auto elems = std::min(layout.slice_elems(), extent.elems - first);
    const auto bytes = elems * elem_bytes;
    total += bytes;
    if (part.buffer == Buffer::scratch) {
      pieces.push_back({lane.scratch.data() + part.scratch_offset * elem_bytes, bytes});
      continue;
    }
    // Inputs are only read: the verifier proves that nothing is stored there.
    const auto& view = part.buffer == Buffer::input ? run.input : run.output;
    const auto at = extent.offset + first;
    if (view.segments.empty())
      pieces.push_back({view.data + at * elem_bytes, bytes});
    else
      append(view, at, elems, elem_bytes, pieces);
  }
  return total;
}

/// The memory that the step lends, if it does.
const std::vector<MemoryRange>& lendable(const ReadyStep& step, const WindowData& data) {
  return step.store.empty() || data.lends_input ? data.local : data.store;
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool streams) {
  if (to == from) return;
  if (streams)
    stream_copy(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

}  // namespace

void enter(ReadyLane& lane, const BlockLayout& layout, const PlanRun& run) {
  const auto& step = lane.step();
  auto& data = lane.data;
  const auto local = locate(lane, layout, run, step.local, data.local);
  const auto store = locate(lane, layout, run, step.store, data.store);
  data.bytes = step.local.empty() ? store : local;
  data.has_slice = data.bytes > 0 || (layout.tells_empty_blocks() && lane.window == 0);
  // Such a step has one block.
  if (layout.has_private_sizes()) data.block_elems = layout.of(step.slice().front()).elems;
  data.lends = step.lend == Lend::always || (step.lend == Lend::if_separate && !run.in_place);
  data.lends_input = data.lends && step.may_lend_input(run.in_place);
  const auto& lends = lendable(step, data);
  if (lends.size() != 1 || lends[0].has_rows() || (step.store.empty() && !step.receives.empty()))
    data.lends = data.lends_input = false;
  lane.entered = true;
}

void WindowPlaces::offer() const {
  const bool only_stores = step_.receives.size() == 1 && !step_.combines && step_.local.empty();
  if (!only_stores || lane_.data.store.size() != 1 || lane_.data.store[0].has_rows()) return;
  auto& link = *step_.receives[0];
  link.offer(lane_.data.store[0].data, lane_.data.bytes);
  if (!step_.fills_block || !context_.run.output.segments.empty()) return;
  const auto rest = layout_.of(step_.store[0]).elems - lane_.window * layout_.slice_elems();
  link.offer_beyond(rest * layout_.elem_bytes() - lane_.data.bytes);
}

const std::byte* WindowPlaces::lent() const {
  return lane_.data.lends ? lendable(step_, lane_.data)[0].data : nullptr;
}

void WindowPlaces::make(std::byte* slot) const {
  // The result, the own data and each received slice are the same bytes laid out differently: walk
  // them together, piece by piece. Rows pass through contiguous memory that stays in the cache.
  auto& combiner = context_.combiner;
  const std::byte** const sources = combiner.sources();
  std::size_t local = 0, local_at = 0, store = 0, store_at = 0;
  for (std::size_t at = 0; at < lane_.data.bytes;) {
    const auto* const own = step_.local.empty() ? nullptr : &lane_.data.local[local];
    const auto* const result = slot != nullptr ? nullptr : &lane_.data.store[store];
    const bool is_from_rows = own != nullptr && own->has_rows();
    const bool is_to_rows = result != nullptr && result->has_rows();
    std::size_t bytes = lane_.data.bytes - at;
    if (own != nullptr) bytes = std::min(bytes, own->bytes - local_at);
    if (result != nullptr) bytes = std::min(bytes, result->bytes - store_at);
    if (is_from_rows || is_to_rows) bytes = std::min(bytes, Combiner::kRowsBytes);
    std::byte* const place = slot != nullptr ? slot + at : result->data + store_at;
    const bool is_copy = !step_.combines;
    // A copy from rows is the result.
    const bool is_result = is_copy && !is_to_rows;
    std::byte* const own_room = is_result ? place : combiner.gathered();
    std::size_t count = 0;
    for (std::size_t i = 0; i <= step_.receives.size(); i++) {
      if (own != nullptr && i == step_.local_position) {
        if (is_from_rows && is_result && slot != nullptr)
          gather_to_link(*own, local_at, bytes, place, combiner.gathered());
        else if (is_from_rows)
          gather(*own, local_at, bytes, own_room);
        sources[count++] = is_from_rows ? own_room : own->data + local_at;
      }
      if (i < step_.receives.size()) sources[count++] = step_.receives[i]->front()->data + at;
    }
    if (is_to_rows && is_copy) {
      scatter(sources[0], bytes, *result, store_at);
    } else if (is_to_rows) {
      make_piece(count, combiner.to_scatter(), bytes, false);
      scatter(combiner.to_scatter(), bytes, *result, store_at);
    } else {
      make_piece(count, place, bytes, slot == nullptr && streams());
    }
    at += bytes;
    if (own != nullptr && (local_at += bytes) == own->bytes) local++, local_at = 0;
    if (result != nullptr && (store_at += bytes) == result->bytes) store++, store_at = 0;
  }
}

void WindowPlaces::make_piece(std::size_t sources, std::byte* out, std::size_t bytes,
                              bool streams) const {
  auto& combiner = context_.combiner;
  if (!step_.combines)
    copy(out, combiner.sources()[0], bytes, streams);
  else if (combiner.folds())
    combiner.fold(context_.run, sources, out, bytes);
  else
    combiner.combine(combiner.sources(), sources, out, bytes / layout_.elem_bytes(), step_.divisor);
}

void WindowPlaces::copy_made(const std::byte* slot, std::byte* room) const {
  if (slot != nullptr) return void(std::memcpy(room, slot, lane_.data.bytes));
  for (const auto& piece : lane_.data.store) {
    gather(piece, 0, piece.bytes, room);
    room += piece.bytes;
  }
}

}  // namespace ccoll
