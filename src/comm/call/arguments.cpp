// SPDX-License-Identifier: Apache-2.0
#include "comm/call/arguments.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "comm/call/extent.hpp"
#include "comm/call/memory_rows.hpp"
#include "comm/call/reductions.hpp"
#include "core/text.hpp"

namespace ccoll {
namespace {

/// Memory of a buffer that lies in one piece.
struct Chunk {
  const std::byte* begin;
  const std::byte* end;
  std::int64_t first;  ///< elements of the buffer before it
};

/// The chunks of a view; a single one, as in almost all views, needs no memory.
class Chunks {
 public:
  Chunks(const BufferView& view, std::uint64_t elems, std::size_t width) {
    if (view.segments.empty() && elems == 0) return;
    const auto add = [&](const std::byte* data, std::uint64_t first, std::uint64_t count) {
      const Chunk chunk{data, data + count * width, static_cast<std::int64_t>(first)};
      if (view.segments.empty())
        only_ = chunk;
      else
        several_.push_back(chunk);
    };
    for_each_stretch(view, elems, width, add);
    if (!std::ranges::is_sorted(several_, {}, &Chunk::begin))
      std::ranges::sort(several_, {}, &Chunk::begin);
  }

  /// By address.
  std::span<const Chunk> all() const {
    if (only_) return {&*only_, 1};
    return several_;
  }

 private:
  std::optional<Chunk> only_;
  std::vector<Chunk> several_;
};

std::vector<Rows> rows_of(const BufferView& view, std::uint64_t elems, std::size_t width) {
  std::vector<Rows> rows;
  const auto add = [&](const BufferView::Segment& segment, std::uint64_t count) {
    rows.push_back(rows_at(segment.data, count, width, segment.row_elems, segment.stride_elems,
                           segment.first));
  };
  const auto& segments = view.segments;
  for (std::size_t i = 0; i < segments.size(); i++)
    add(segments[i], (i + 1 < segments.size() ? segments[i + 1].first : elems) - segments[i].first);
  if (segments.empty() && elems > 0) add({0, view.data}, elems);
  return rows;
}

/// Whether each element that both have is the same one of the buffers: element i of the input is
/// element i + `place` of the output.
bool is_in_place(const Rows& in, const Rows& out, std::int64_t place, std::size_t width) {
  if (in.row_bytes != out.row_bytes || in.stride_bytes != out.stride_bytes) return false;
  const auto row_elems = in.row_bytes / static_cast<std::ptrdiff_t>(width);
  const auto apart = in.begin - out.begin;
  if (in.stride_bytes == 0) return apart == 0 && in.first + place == out.first;
  return apart % in.stride_bytes == 0 &&
         apart / in.stride_bytes * row_elems == in.first + place - out.first;
}

/// The result of overlap() for blocks with rows, if it is clear without a look at single rows.
std::optional<bool> overlap_of_rows(std::vector<Rows> rows, std::size_t inputs, std::int64_t place,
                                    std::size_t width) {
  bool shared = false;
  const bool is_clear = all_neighbours(rows, [&](std::size_t i, std::size_t j) {
    if (i > j) std::swap(i, j);
    if (j < inputs || are_apart(rows[i], rows[j])) return true;
    if (i >= inputs || !is_in_place(rows[i], rows[j], place, width)) return false;
    return shared = true;
  });
  if (!is_clear) return std::nullopt;
  return shared;
}

/// Where in the output the input's first element lies when a call is in place, in elements.
std::int64_t place_in_output(const Call& call, Rank rank) {
  const bool gathers = holds_own_block_only(call.kind, Buffer::input);
  const bool scatters = holds_own_block_only(call.kind, Buffer::output);
  if (!gathers && !scatters) return 0;
  const auto before = call.ragged()
                          ? std::accumulate(call.block_counts.begin(),
                                            call.block_counts.begin() + rank, std::uint64_t{0})
                          : call.count * rank;
  const auto mine = static_cast<std::int64_t>(before);
  return gathers ? mine : -mine;
}

Status bad_overlap(const Call& call, const Chunk& in, const Chunk& out, std::int64_t place) {
  if (!call.input.segments.empty() || !call.output.segments.empty())
    return fail(
        ErrorKind::invalid_argument,
        "{}: input and output overlap, but this rank's own data does not lie at the same address, "
        "in the same rows, in both",
        name_of(call));
  const auto width = static_cast<std::ptrdiff_t>(size_of(call.type)), bytes = in.begin - out.begin;
  const bool whole = bytes % width == 0;
  return fail(ErrorKind::invalid_argument,
              "{}: input and output overlap: the input begins {} {} from the output; in place it "
              "must begin at {}{}",
              name_of(call), whole ? bytes / width : bytes, whole ? "elements" : "bytes", place,
              whole ? "" : " elements");
}

/// Whether input and output share memory; fails where they must not.
Result<bool> overlap(const Call& call, Rank rank, Rank size) {
  const auto width = size_of(call.type);
  const auto in_elems = elems_of(call, Buffer::input, rank, size);
  const auto out_elems = elems_of(call, Buffer::output, rank, size);
  const auto place = place_in_output(call, rank);
  if (has_rows(call.input) || has_rows(call.output)) {
    auto rows = rows_of(call.input, in_elems, width);
    const auto inputs = rows.size();
    std::ranges::copy(rows_of(call.output, out_elems, width), std::back_inserter(rows));
    if (const auto found = overlap_of_rows(std::move(rows), inputs, place, width)) return *found;
  }
  const Chunks inputs(call.input, in_elems, width);
  const Chunks outputs(call.output, out_elems, width);
  const auto ins = inputs.all(), outs = outputs.all();
  for (std::size_t i = 1; i < outs.size(); i++)
    if (outs[i].begin < outs[i - 1].end)
      return fail(ErrorKind::invalid_argument, "{}: parts of the output overlap each other",
                  name_of(call));
  const bool copies = !may_be_in_place(call.kind);  // the input, wherever it is
  bool shared = false;
  for (const auto& in : ins) {
    auto out = std::ranges::upper_bound(outs, in.begin, {}, &Chunk::end);
    for (; out != outs.end() && out->begin < in.end; ++out) {
      const auto apart = in.first + place - out->first;
      if (!copies && in.begin - out->begin != apart * static_cast<std::ptrdiff_t>(width))
        return tl::unexpected(bad_overlap(call, in, *out, place).error());
      shared = true;
    }
  }
  return shared;
}

Status check_reduction(const Call& call) {
  const auto& op = call.op;
  if (op.form() == Reduction::Form::plain &&
      std::ranges::find(kReduceOps, op.op()) == kReduceOps.end())
    return fail(ErrorKind::invalid_argument, "{}: {} is not a ReduceOp", name_of(call),
                static_cast<int>(op.op()));
  if (op.form() == Reduction::Form::plain && !is_defined(op.op(), call.type))
    return fail(ErrorKind::invalid_argument,
                "{}: {} is not defined on {}; bitwise operations take integers and bool, averages "
                "take all types but bool",
                name_of(call), to_string(op.op()), to_string(call.type));
  if (op.form() != Reduction::Form::premultiplied_sum) return {};
  if (call.type == DataType::boolean)
    return fail(ErrorKind::invalid_argument, "{}: premultiplied_sum is not defined on bool",
                name_of(call));
  const bool is_empty_list = call.coalesced && call.count == 0;  // it may not even have a type
  if (!is_empty_list && op.factor_place() != nullptr && op.factor_type() != call.type)
    return fail(ErrorKind::invalid_argument,
                "{}: the factor in memory is of type {}: expected {}, as the call's elements are",
                name_of(call), to_string(op.factor_type()), to_string(call.type));
  if (!is_empty_list && is_integer(call.type) && !op.has_whole_factor() &&
      std::trunc(op.factor()) == op.factor())
    return fail(ErrorKind::invalid_argument,
                "{}: {} of {}: the factor is out of range: expected a whole number between -2^63 "
                "and 2^63",
                name_of(call), op.text(), to_string(call.type));
  if (!is_empty_list && is_integer(call.type) && !op.has_whole_factor())
    return fail(ErrorKind::invalid_argument, "{}: {} of {}: the factor must be a whole number",
                name_of(call), op.text(), to_string(call.type));
  return {};
}

}  // namespace

Status check_type(std::string_view call, DataType type) {
  if (size_of(type) > 0) return {};
  return fail(ErrorKind::invalid_argument, "{}: {} is not a DataType", call,
              static_cast<int>(type));
}

std::string no_such_rank(std::string_view subject, std::int64_t rank, Rank size) {
  return fmt::format("{} {} is not one of {} rank{}: expected 0{}", subject, rank, size,
                     size == 1 ? "" : "s", size == 1 ? "" : fmt::format(" to {}", size - 1));
}

Status check_root(std::string_view call, Rank root, Rank size) {
  if (root < size) return {};
  return fail(ErrorKind::invalid_argument, "{}",
              no_such_rank(fmt::format("{}: root", call), static_cast<std::int32_t>(root), size));
}

Status check_timeout(std::string_view call, std::chrono::milliseconds timeout) {
  if (timeout.count() >= 0) return {};
  return fail(ErrorKind::invalid_argument, "{}: a time limit of {} ms; it must be 0 or more", call,
              timeout.count());
}

Status refuse_in_stream(std::string_view call, const CallOptions& options) {
  if (!options.stream) return {};
  return fail(ErrorKind::invalid_argument,
              "{}: a stream is given, but this call cannot run in a stream", call);
}

Status check_values(const Call& call, Rank size) {
  if (call.root >= size) CCOLL_TRY(check_root(name_of(call), call.root, size));
  CCOLL_TRY(check_type(to_string(call.kind), call.type));
  if (reduces(call.kind)) CCOLL_TRY(check_reduction(call));
  if (call.count > kBeyondMemory / size / size_of(call.type))
    return fail(ErrorKind::invalid_argument, "{}: {} elements are more than memory can hold",
                name_of(call), call.count);
  return {};
}

Status check_arguments(Call& call, Rank rank, Rank size) {
  CCOLL_TRY(check_values(call, size));
  for (const auto buffer : {Buffer::input, Buffer::output}) {
    const auto& view = buffer == Buffer::input ? call.input : call.output;
    const auto elems = elems_of(call, buffer, rank, size);
    if (elems > 0 && view.data == nullptr)
      return fail(ErrorKind::invalid_argument, "{}: {} is null, {} elements are expected there",
                  name_of(call), buffer == Buffer::input ? "input" : "output", elems);
  }
  const auto in_place = overlap(call, rank, size);
  if (!in_place) return tl::unexpected(in_place.error());
  call.in_place = *in_place;
  return {};
}

Status check_order(const Call& call, Rank size, bool deterministic) {
  const auto order = order_of(call.op, call.type, deterministic);
  if (!call.algorithm || order == CombineOrder::any) return {};
  Problem problem;
  problem.kind = call.kind;
  problem.size = size;
  problem.root = call.root;
  if (keeps_order(problem, *call.algorithm, order)) return {};
  std::vector<std::string_view> names;
  for (const auto each : algorithms_for(call.kind, call.ragged()))
    if (keeps_order(problem, each, order)) names.push_back(to_string(each));
  const bool at_once = order == CombineOrder::at_once;
  return fail(ErrorKind::invalid_argument, "{}: {}, and {} does not combine {}; these do: {}",
              to_string(call.kind),
              at_once ? "the communicator is deterministic"
                      : fmt::format("{} does not commute", call.op.text()),
              to_string(*call.algorithm), at_once ? "all in one step" : "in rank order",
              joined(names));
}

Result<Collective> collective_named(std::string_view name) {
  const bool ragged = name.ends_with("_v");
  const auto kind = parse_kind(ragged ? name.substr(0, name.size() - 2) : name);
  if (!kind || (ragged && algorithms_for(*kind, true).empty()))
    return fail(ErrorKind::invalid_argument, "no collective is called '{}'", name);
  return Collective{*kind, ragged};
}

Result<std::optional<Algorithm>> algorithm_named(std::string_view name, Collective collective) {
  if (name.empty()) return std::nullopt;
  const auto there_are = algorithms_for(collective.kind, collective.ragged);
  const auto algorithm = parse_algorithm(name);
  if (algorithm && std::ranges::find(there_are, *algorithm) != there_are.end()) return algorithm;
  std::vector<std::string_view> names;
  for (const auto each : there_are) names.push_back(to_string(each));
  return fail(ErrorKind::invalid_argument, "{}{}: no algorithm '{}'; there are {}",
              to_string(collective.kind), collective.ragged ? "_v" : "", name, joined(names));
}

}  // namespace ccoll
