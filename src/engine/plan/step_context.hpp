// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of a plan that a step's places use.

#include <cstddef>
#include <cstdint>

#include "engine/copy_policy.hpp"
#include "engine/plan/combiner.hpp"
#include "engine/plan/run_reporter.hpp"
#include "engine/plan_request.hpp"
#include "transport/link.hpp"

namespace ccoll {

struct StepContext {
  const PlanRun& run;
  Combiner& combiner;
  const CopyPolicy& copying;
  RunReporter& reporter;

  /// The header of a slice of the run.
  SliceHeader header_of(std::size_t bytes) const {
    return {run.sequence, run.signature, static_cast<std::uint32_t>(bytes), 0};
  }
};

}  // namespace ccoll
