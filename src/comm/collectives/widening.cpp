// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/widening.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "comm/call/call.hpp"

namespace ccoll {
namespace {

/// Time that converting takes, there and back, beside the algorithm's own.
double conversion_ns(const Problem& problem, const CostTable& costs) {
  const bool is_whole = divides_whole_buffer(problem.kind);
  const double elems = static_cast<double>(problem.count) * (is_whole ? 1 : problem.size);
  return 2 * elems * sizeof(float) / costs.reduce_bytes_per_s * 1e9;
}

BufferView view_of(float* elements) { return {reinterpret_cast<std::byte*>(elements), {}}; }

}  // namespace

bool averages_narrow_floats(const Call& call) {
  const auto type = call.type;
  return call.op.form() == Reduction::Form::plain && call.op.op() == ReduceOp::avg &&
         reduces(call.kind) &&
         (type == DataType::float16 || type == DataType::float8_e4m3 ||
          type == DataType::float8_e5m2);
}

bool is_widened(const Call& call, Algorithm algorithm, Rank size) {
  if (!averages_narrow_floats(call)) return false;
  Problem problem;
  problem.kind = call.kind;
  problem.size = size;
  problem.root = call.root;
  return !keeps_order(problem, algorithm, CombineOrder::at_once);
}

TypedChoice choose_for(const Call& call, const Problem& problem, const CostTable& costs,
                       const Forced& forced) {
  auto at_once = forced;
  if (averages_narrow_floats(call)) at_once.order = CombineOrder::at_once;
  TypedChoice narrow{choose(problem, size_of(call.type), costs, at_once), call.type};
  if (at_once.order == forced.order) return narrow;
  TypedChoice wide{choose(problem, sizeof(float), costs, forced), DataType::float32};
  const auto algorithm = wide.chosen.choice.algorithm;
  if (!is_widened(call, algorithm, problem.size)) return narrow;
  if (forced.algorithm == algorithm) return wide;
  if (forced.algorithm == narrow.chosen.choice.algorithm) return narrow;
  const auto ns = [](const TypedChoice& typed) {
    return typed.chosen.candidates.front().predicted_ns;
  };
  return ns(wide) + conversion_ns(problem, costs) < ns(narrow) ? wide : narrow;
}

Result<Widening> Widening::make(const Call& call, Rank rank, Rank size, PlanRun& run) {
  Widening made;
  made.input_elems_ = elems_of(call, Buffer::input, rank, size);
  made.output_elems_ = elems_of(call, Buffer::output, rank, size);
  made.elem_bytes_ = size_of(call.type);
  made.conversion_ = find_conversion(call.type);
  // Results may take the input's place if they are as long.
  const bool in_place = made.input_elems_ == made.output_elems_;
  const auto elems = made.input_elems_ + (in_place ? 0 : made.output_elems_);
  made.memory_.reset(new (std::nothrow) float[elems]);
  if (!made.memory_)
    return fail(ErrorKind::exhausted, "{}: there is no memory to convert {} elements to float32",
                name_of(call), elems);
  made.results_ = made.memory_.get() + (in_place ? 0 : made.input_elems_);
  made.input_ = std::exchange(run.input, view_of(made.memory_.get()));
  made.output_ = std::exchange(run.output, view_of(made.results_));
  run.in_place = in_place;
  return made;
}

void Widening::widen() const {
  for_each_stretch(input_, input_elems_, elem_bytes_,
                   [&](const std::byte* data, std::uint64_t first, std::uint64_t count) {
                     conversion_.widen(data, memory_.get() + first, count);
                   });
}

void Widening::narrow() const {
  for_each_stretch(output_, output_elems_, elem_bytes_,
                   [&](std::byte* data, std::uint64_t first, std::uint64_t count) {
                     conversion_.narrow(results_ + first, data, count);
                   });
}

}  // namespace ccoll
