// SPDX-License-Identifier: Apache-2.0
#include "comm/arguments.hpp"

#include "comm/reductions.hpp"
#include "core/text.hpp"

namespace ccoll {
namespace {

/// A buffer as this rank uses it.
struct Use {
  const std::byte* data = nullptr;
  std::size_t elems = 0;  ///< 0: not used on this rank
};

struct Uses {
  Use input, output;
  /// Where the output may begin within the input, or the input within the output, in elements.
  std::ptrdiff_t in_place = 0;
  bool may_be_in_place = true;
};

Uses uses_of(const Call& call, Rank rank, Rank size) {
  const auto* input = static_cast<const std::byte*>(call.input);
  const auto* output = static_cast<const std::byte*>(call.output);
  const bool root = rank == call.root;
  const auto all = call.count * size;
  const auto mine = static_cast<std::ptrdiff_t>(call.count * rank);
  switch (call.kind) {
    case Kind::all_reduce:
      return {{input, call.count}, {output, call.count}};
    case Kind::reduce:
      return {{input, call.count}, {output, root ? call.count : 0}};
    case Kind::broadcast:
      return {{input, root ? call.count : 0}, {output, call.count}};
    case Kind::all_gather:
      return {{input, call.count}, {output, all}, mine};
    case Kind::gather:
      return {{input, call.count}, {output, root ? all : 0}, mine};
    case Kind::reduce_scatter:
      return {{input, all}, {output, call.count}, -mine};
    case Kind::scatter:
      return {{input, root ? all : 0}, {output, call.count}, -mine};
    case Kind::all_to_all:
      return {{input, all}, {output, all}, 0, false};
    case Kind::barrier:
      return {};
  }
  return {};
}

Status check_overlap(const Call& call, const Uses& uses) {
  const auto width = size_of(call.type);
  const auto& [in, out, in_place, may_be_in_place] = uses;
  if (in.elems == 0 || out.elems == 0) return {};
  if (in.data + in.elems * width <= out.data || out.data + out.elems * width <= in.data) return {};
  const auto offset = (in.data - out.data) / static_cast<std::ptrdiff_t>(width);
  if (may_be_in_place && in.data - out.data == in_place * static_cast<std::ptrdiff_t>(width))
    return {};
  if (!may_be_in_place)
    return fail(ErrorKind::invalid_argument,
                "{}: input and output overlap; it does not work in place", to_string(call.kind));
  return fail(ErrorKind::invalid_argument,
              "{}: input and output overlap, the input beginning {} elements from the output; in "
              "place it begins at {}",
              to_string(call.kind), offset, in_place);
}

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

Status check_reduction(const Call& call) {
  const auto& op = call.op;
  const auto kind = to_string(call.kind);
  const auto type = to_string(call.type);
  if (op.form() == Reduction::Form::plain && !is_defined(op.op(), call.type))
    return fail(ErrorKind::invalid_argument,
                "{}: {} is not defined on {}; operations on bits take integers and bool, averages "
                "all but bool",
                kind, to_string(op.op()), type);
  if (op.form() != Reduction::Form::premultiplied_sum) return {};
  if (call.type == DataType::boolean)
    return fail(ErrorKind::invalid_argument, "{}: premultiplied_sum is not defined on bool", kind);
  if (is_integer(call.type) && !op.has_whole_factor())
    return fail(ErrorKind::invalid_argument, "{}: {} of {}: the factor must be a whole number",
                kind, op.text(), type);
  return {};
}

}  // namespace

Status check_arguments(const Call& call, Rank rank, Rank size) {
  if (call.root >= size)
    return fail(ErrorKind::invalid_argument, "{}: root {} is not one of {} ranks",
                to_string(call.kind), static_cast<std::int32_t>(call.root), size);
  if (reduces(call.kind)) CCOLL_TRY(check_reduction(call));
  if (call.count > SIZE_MAX / 2 / size / size_of(call.type))
    return fail(ErrorKind::invalid_argument, "{}: {} elements are more than memory can hold",
                to_string(call.kind), call.count);
  const auto uses = uses_of(call, rank, size);
  for (const auto& [name, use] : {std::pair{"input", uses.input}, {"output", uses.output}})
    if (use.elems > 0 && use.data == nullptr)
      return fail(ErrorKind::invalid_argument, "{}: {} is null, {} elements are expected there",
                  to_string(call.kind), name, use.elems);
  return check_overlap(call, uses);
}

Status check_order(const Call& call, Rank size) {
  if (!call.algorithm || !needs_rank_order(call.op)) return {};
  Problem problem;
  problem.kind = call.kind;
  problem.size = size;
  problem.root = call.root;
  if (combines_in_rank_order(problem, *call.algorithm)) return {};
  std::vector<std::string_view> names;
  for (const auto each : algorithms_for(call.kind))
    if (combines_in_rank_order(problem, each)) names.push_back(to_string(each));
  return fail(ErrorKind::invalid_argument,
              "{}: {} does not commute, and {} does not combine in rank order; these do: {}",
              to_string(call.kind), call.op.text(), to_string(*call.algorithm), joined(names));
}

Result<Kind> kind_named(std::string_view name) {
  const auto kind = parse_kind(name);
  if (!kind) return fail(ErrorKind::invalid_argument, "no collective is called '{}'", name);
  return *kind;
}

Result<std::optional<Algorithm>> algorithm_named(std::string_view name, Kind kind) {
  if (name.empty()) return std::nullopt;
  const auto algorithm = parse_algorithm(name);
  if (algorithm && find_algorithm(kind, *algorithm)) return algorithm;
  std::vector<std::string_view> names;
  for (const auto each : algorithms_for(kind)) names.push_back(to_string(each));
  return fail(ErrorKind::invalid_argument, "{}: no algorithm '{}'; there are {}", to_string(kind),
              name, joined(names));
}

}  // namespace ccoll
