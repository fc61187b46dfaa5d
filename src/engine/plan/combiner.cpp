// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/combiner.hpp"

#include <algorithm>
#include <cstring>

namespace ccoll {

Combiner::Combiner(DataType type, std::optional<ReduceOp> op, std::size_t most_sources)
    : elem_bytes_(size_of(type)), sources_(most_sources) {
  if (op)
    combine_ = find_combine(type, *op);
  else
    fold_ = std::make_unique<CustomFold>(type, elem_bytes_);
}

void Combiner::prepare_rows() {
  if (!rows_) rows_ = std::make_unique_for_overwrite<std::byte[]>(2 * kRowsBytes);
}

void Combiner::fold(const PlanRun& run, std::size_t count, std::byte* out, std::size_t bytes) {
  (*fold_)(*run.custom, run.custom_for, sources_.data(), count, out, bytes / elem_bytes_);
}

Failure Combiner::fold_failure(const PlanRun& run) const {
  const auto& name = run.custom->description.name;
  if (in_child())
    return fail(ErrorKind::aborted, "this process is a child that the reduction '{}' forked", name)
        .value();
  return fail(ErrorKind::aborted, "the reduction '{}' threw: {}", name, *fold_->thrown()).value();
}

}  // namespace ccoll
