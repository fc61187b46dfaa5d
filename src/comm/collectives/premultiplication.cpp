// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/premultiplication.hpp"

#include <new>
#include <utility>

#include "comm/call/call.hpp"

namespace ccoll {
namespace {

element::Factor factor_of(const Reduction& reduction) {
  return {reduction.factor(), reduction.whole_factor()};
}

}  // namespace

Result<Premultiplication> Premultiplication::make(const Call& call, std::uint32_t rank,
                                                  std::uint32_t size, PlanRun& run) {
  Premultiplication made;
  made.elems_ = elems_of(call, Buffer::input, rank, size);
  made.elem_bytes_ = size_of(call.type);
  made.scale_ = find_scale(call.type);
  made.factor_ = factor_of(call.op);
  made.factor_place_ = call.op.factor_place();
  made.factor_type_ = call.op.factor_type();
  const bool as_long =
      call.kind == Kind::all_reduce || (call.kind == Kind::reduce && rank == call.root);
  run.in_place = as_long && run.output.segments.empty();
  if (run.in_place) {
    made.products_ = run.output.data;
  } else {
    const std::size_t bytes = made.elems_ * made.elem_bytes_;
    made.own_.reset(new (std::nothrow) std::byte[bytes]);
    if (!made.own_)
      return fail(ErrorKind::exhausted, "{}: no memory for {} bytes of multiplied input",
                  name_of(call), bytes);
    made.products_ = made.own_.get();
  }
  made.input_ = std::exchange(run.input, {made.products_, {}});
  return made;
}

void Premultiplication::operator()() const {
  const auto factor = factor_place_ == nullptr
                          ? factor_
                          : factor_of(Reduction::premultiplied_sum(factor_place_, factor_type_));
  for_each_stretch(input_, elems_, elem_bytes_,
                   [&](const std::byte* data, std::uint64_t first, std::uint64_t count) {
                     scale_(data, products_ + first * elem_bytes_, count, factor);
                   });
}

}  // namespace ccoll
