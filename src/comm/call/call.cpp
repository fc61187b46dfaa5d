// SPDX-License-Identifier: Apache-2.0
#include "comm/call/call.hpp"

#include <numeric>

#include "comm/call/arguments.hpp"
#include "comm/call/extent.hpp"
#include "comm/call/reductions.hpp"
#include "engine/mix.hpp"

namespace ccoll {
namespace {

constexpr std::uint8_t kByCost = 255;  ///< a signature's algorithm that nobody asked for

std::uint32_t hash_of(const std::vector<std::uint64_t>& counts) {
  std::uint64_t hash = counts.size();
  for (const auto count : counts) hash = mix(hash, count);
  return static_cast<std::uint32_t>(hash);
}

std::uint64_t sum(const std::vector<std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

/// Builds a view stretch by stretch; neighbours in memory become one.
class ViewBuilder {
 public:
  explicit ViewBuilder(DataType type) : elem_bytes_(size_of(type)) {}

  /// Elements [first, first + elems) of a block.
  template <typename AnyBlock>
  void append(const AnyBlock& block, std::uint64_t first, std::uint64_t elems) {
    const auto at = [&, data = static_cast<const std::byte*>(block.data)](std::uint64_t elem) {
      return const_cast<std::byte*>(data) + elem * elem_bytes_;
    };
    if (is_contiguous(block)) return append(at(first), elems);
    const std::uint64_t row = block.row_length;
    const auto place = [&](std::uint64_t elem) {
      return at(elem / row * block.stride + elem % row);
    };
    // A part of a row, whole rows, and a part of a row.
    const auto head = std::min(elems, (row - first % row) % row);
    append(place(first), head);
    const auto rows = (elems - head) / row * row;
    if (rows > 0) {
      segments_.push_back({elems_, place(first + head), row, block.stride});
      elems_ += rows;
      end_ = nullptr;
    }
    append(place(first + head + rows), elems - head - rows);
  }

  BufferView done() && {
    if (segments_.empty()) return {};
    auto* data = segments_.front().data;
    if (segments_.size() == 1 && segments_.front().row_elems == 0) segments_.clear();
    return {data, std::move(segments_)};
  }

 private:
  void append(std::byte* data, std::uint64_t elems) {
    if (elems == 0) return;
    if (segments_.empty() || data != end_) segments_.push_back({elems_, data});
    end_ = data + elems * elem_bytes_;
    elems_ += elems;
  }

  std::size_t elem_bytes_;
  std::vector<BufferView::Segment> segments_;
  std::byte* end_ = nullptr;
  std::uint64_t elems_ = 0;
};

/// Whether a rank has nothing in that buffer, whatever it gave.
bool unused(Kind kind, Buffer buffer, bool is_root) {
  return !is_root && is_roots_alone(kind, buffer);
}

/// Whether a rank has one block per rank in that buffer.
bool has_all_blocks(Kind kind, Buffer buffer, bool is_root) {
  return !divides_whole_buffer(kind) && !holds_own_block_only(kind, buffer) &&
         !unused(kind, buffer, is_root);
}

template <typename AnyBlock>
Status check_blocks(const Call& call, std::string_view what, std::span<const AnyBlock> blocks,
                    std::size_t wanted) {
  if (blocks.size() != wanted)
    return fail(ErrorKind::invalid_argument, "{}_v: {} {} blocks are given, {} are expected",
                to_string(call.kind), blocks.size(), what, wanted);
  for (std::size_t i = 0; i < blocks.size(); i++) {
    const auto& block = blocks[i];
    if (block.type != call.type)
      return fail(ErrorKind::invalid_argument,
                  "{}_v: {} block {} is of {}, the first block of the call is of {}",
                  to_string(call.kind), what, i, to_string(block.type), to_string(call.type));
    if (block.count > kBeyondMemory / wanted / size_of(call.type))
      return fail(ErrorKind::invalid_argument, "{}_v: {} elements are more than memory can hold",
                  to_string(call.kind), block.count);
    if (block.count > 0 && block.data == nullptr)
      return fail(ErrorKind::invalid_argument,
                  "{}_v: {} block {} is null, {} elements are expected there", to_string(call.kind),
                  what, i, block.count);
    if (!is_contiguous(block) && !check_rows("", "", block))
      return check_rows(fmt::format("{}_v", to_string(call.kind)),
                        fmt::format("{} block {}", what, i), block);
  }
  return {};
}

template <typename AnyBlock>
BufferView view_of(std::span<const AnyBlock> blocks, DataType type) {
  ViewBuilder view(type);
  for (const auto& block : blocks) view.append(block, 0, block.count);
  return std::move(view).done();
}

/// The view of a plain call's block. Where the rank uses none, nobody looks at it.
template <typename AnyBlock>
BufferView view_of(const AnyBlock& block, const Call& call, Buffer which, Rank rank, Rank size) {
  auto* const data =
      static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(block.data)));
  if (is_contiguous(block)) return {data, {}};
  const auto elems = elems_of(call, which, rank, size);
  if (data == nullptr || elems == 0 || size_of(call.type) == 0) return {data, {}};
  ViewBuilder view(call.type);
  view.append(block, 0, elems);
  return std::move(view).done();
}

template <typename AnyBlock>
std::vector<std::uint64_t> counts_of(std::span<const AnyBlock> blocks) {
  std::vector<std::uint64_t> counts;
  counts.reserve(blocks.size());
  for (const auto& block : blocks) counts.push_back(block.count);
  return counts;
}

/// Sets the sizes as this rank knows them.
Status set_counts(Call& call, const BlockLists& lists, Rank rank, Rank size) {
  const bool is_root = rank == call.root;
  const bool all_in = has_all_blocks(call.kind, Buffer::input, is_root);
  const bool all_out = has_all_blocks(call.kind, Buffer::output, is_root);
  if (all_in) call.block_counts = counts_of(lists.inputs);
  if (all_out) (all_in ? call.output_counts : call.block_counts) = counts_of(lists.outputs);
  if (!all_in && !all_out) {
    call.block_counts.assign(size, 0);
    call.block_counts[rank] =
        call.kind == Kind::gather ? lists.inputs[0].count : lists.outputs[0].count;
    return {};
  }
  const auto mine = all_in ? lists.inputs[rank].count : lists.inputs[0].count;
  const auto own = all_out ? lists.outputs[rank].count : lists.outputs[0].count;
  if (mine == own) return {};
  const auto place = [&](bool all) { return all ? fmt::format(" block {}", rank) : ""; };
  return fail(ErrorKind::invalid_argument,
              "{}_v: input{} has {} elements, output{} {}; they are this rank's own and must be "
              "equal",
              to_string(call.kind), place(all_in), mine, place(all_out), own);
}

/// The sum of counts per rank; refuse(why) throws if one is below 0 or the sum is too large.
template <typename Refuse>
std::size_t sum_of(const std::vector<std::int64_t>& counts, const Refuse& refuse) {
  std::size_t together = 0;
  for (std::size_t r = 0; r < counts.size(); r++) {
    if (counts[r] < 0) refuse(fmt::format("the count of rank {} is {}", r, counts[r]));
    if (__builtin_add_overflow(together, static_cast<std::size_t>(counts[r]), &together))
      refuse("the counts are more together than memory can hold");
  }
  return together;
}

/// A call without buffers.
Call begun(const Outline& outline) {
  Call call;
  call.kind = outline.kind;
  call.root = outline.root;
  call.op = outline.op;
  return call;
}

}  // namespace

std::vector<std::size_t> checked_counts(std::size_t elems, std::vector<std::int64_t> counts) {
  const auto refuse = [](std::string why) {
    raise({ErrorKind::invalid_argument, "blocks: " + std::move(why), std::nullopt});
  };
  const auto together = sum_of(counts, refuse);
  if (together != elems)
    refuse(fmt::format("the buffer has {} elements, the counts are {} together", elems, together));
  return {counts.begin(), counts.end()};
}

std::vector<std::size_t> checked_columns(std::size_t elems, std::size_t rows,
                                         std::vector<std::int64_t> counts) {
  const auto refuse = [](std::string why) {
    raise({ErrorKind::invalid_argument, "columns: " + std::move(why), std::nullopt});
  };
  if (rows == 0 ? elems > 0 : elems % rows != 0)
    refuse(fmt::format("{} elements do not divide into {} rows of equal length", elems, rows));
  const auto together = sum_of(counts, refuse);
  if (rows > 0 && together != elems / rows)
    refuse(fmt::format("the matrix has {} columns, the counts are {} together", elems / rows,
                       together));
  return {counts.begin(), counts.end()};
}

std::string name_of(const Call& call) {
  return fmt::format("{}{}", to_string(call.kind), call.ragged() ? "_v" : "");
}

Call all_gather_of(const void* input, void* output, std::size_t bytes) {
  Call call;
  call.kind = Kind::all_gather;
  call.input.data = static_cast<std::byte*>(const_cast<void*>(input));
  call.output.data = static_cast<std::byte*>(output);
  call.count = bytes;
  return call;
}

std::uint64_t elems_of(const Call& call, Buffer buffer, Rank rank, Rank size) {
  const bool is_root = rank == call.root, input = buffer == Buffer::input;
  if (call.kind == Kind::barrier) return 0;
  if (unused(call.kind, buffer, is_root)) return 0;
  if (has_all_blocks(call.kind, buffer, is_root)) {
    if (!call.ragged()) return call.count * size;
    return sum(call.kind == Kind::all_to_all && !input ? call.output_counts : call.block_counts);
  }
  return call.ragged() ? call.block_counts[rank] : call.count;
}

Signature signature_of(const Call& call) {
  Signature signature;
  signature.count = call.count;
  signature.root = call.root;
  signature.kind = static_cast<std::uint8_t>(call.kind);
  signature.type = static_cast<std::uint8_t>(call.type);
  signature.algorithm = call.algorithm ? static_cast<std::uint8_t>(*call.algorithm) : kByCost;
  sign(call.op, signature);
  if (call.ragged()) {
    signature.kind |= kRagged;
    if (!sizes_are_private(call.kind)) {
      signature.count = sum(call.block_counts);
      signature.root ^= hash_of(call.block_counts);
    }
  }
  if (call.coalesced) {
    signature.kind |= kCoalesced;
    signature.root ^= *call.coalesced;
  }
  if (call.shown_as) signature.kind = *call.shown_as;
  return signature;
}

Result<Call> call_of(const Outline& outline, const Blocks& blocks) {
  const auto& [kind, op, root, rank, size] = outline;
  const auto& [input, output] = blocks;
  const auto extent = extent_of(to_string(kind), kind, input, output, {outline.is_root(), size});
  if (!extent) return tl::unexpected(extent.error());
  Call call = begun(outline);
  call.count = extent->count;
  call.type = extent->type;
  call.input = view_of(input, call, Buffer::input, rank, size);
  call.output = view_of(output, call, Buffer::output, rank, size);
  CCOLL_TRY(check_arguments(call, rank, size));
  return call;
}

Result<Call> call_of(const Outline& outline, const BlockLists& lists) {
  const auto& [kind, op, root, rank, size] = outline;
  Call call = begun(outline);
  const auto name = fmt::format("{}_v", to_string(kind));
  CCOLL_TRY(check_root(name, root, size));
  const bool is_root = outline.is_root();
  auto [inputs, outputs] = lists;
  if (unused(kind, Buffer::input, is_root)) inputs = {};
  if (unused(kind, Buffer::output, is_root)) outputs = {};
  if (!inputs.empty())
    call.type = inputs.front().type;
  else if (!outputs.empty())
    call.type = outputs.front().type;
  const auto wanted = [&, kind = kind, size = size](Buffer buffer) -> std::size_t {
    if (unused(kind, buffer, is_root)) return 0;
    return has_all_blocks(kind, buffer, is_root) ? size : 1;
  };
  CCOLL_TRY(check_type(name, call.type));
  CCOLL_TRY(check_blocks(call, "input", inputs, wanted(Buffer::input)));
  CCOLL_TRY(check_blocks(call, "output", outputs, wanted(Buffer::output)));
  CCOLL_TRY(set_counts(call, {inputs, outputs}, rank, size));
  call.input = view_of(inputs, call.type);
  call.output = view_of(outputs, call.type);
  CCOLL_TRY(check_arguments(call, rank, size));
  return call;
}

Result<Call> call_of(const Outline& outline, BufferPairs buffers) {
  const auto& [kind, op, root, rank, size] = outline;
  Call call = begun(outline);
  CCOLL_TRY(check_root(to_string(kind), root, size));
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < buffers.size(); i++) {
    const auto extent =
        extent_of(fmt::format("{} of several buffers: buffer {}", to_string(kind), i), kind,
                  buffers[i].input, buffers[i].output, {outline.is_root(), size});
    if (!extent) return tl::unexpected(extent.error());
    const auto [count, type] = *extent;
    if (i == 0) call.type = type;
    CCOLL_TRY(check_type(to_string(kind), type));
    if (type != call.type)
      return fail(
          ErrorKind::invalid_argument,
          "{} of several buffers: buffer {} is of {}, buffer 0 of {}; one call has one type",
          to_string(kind), i, to_string(type), to_string(call.type));
    if (count > kBeyondMemory / size / size_of(call.type) - call.count)
      return fail(ErrorKind::invalid_argument, "{}: {} elements are more than memory can hold",
                  to_string(kind), count);
    counts.push_back(count);
    call.count += count;
  }
  call.coalesced = hash_of(counts);
  // A buffer that holds one block per rank: its block r is block r of every buffer, in order.
  const auto view = [&, kind = kind, rank = rank, size = size](
                        Buffer which, std::string_view what) -> Result<BufferView> {
    const auto elems = elems_of(call, which, rank, size);
    const Rank blocks = has_all_blocks(kind, which, outline.is_root()) ? size : 1;
    ViewBuilder built(call.type);
    for (Rank block = 0; elems > 0 && block < blocks; block++) {
      for (std::size_t i = 0; i < buffers.size(); i++) {
        const ConstBlock& buffer =
            which == Buffer::input ? buffers[i].input : ConstBlock(buffers[i].output);
        if (counts[i] > 0 && buffer.data == nullptr)
          return fail(ErrorKind::invalid_argument,
                      "{} of several buffers: {} {} is null, {} elements are expected there",
                      to_string(kind), what, i, counts[i] * blocks);
        built.append(buffer, block * counts[i], counts[i]);
      }
    }
    return std::move(built).done();
  };
  auto input = view(Buffer::input, "input");
  if (!input) return tl::unexpected(input.error());
  auto output = view(Buffer::output, "output");
  if (!output) return tl::unexpected(output.error());
  call.input = std::move(*input);
  call.output = std::move(*output);
  CCOLL_TRY(check_arguments(call, rank, size));
  return call;
}

}  // namespace ccoll
