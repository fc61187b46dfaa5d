// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/runs.hpp"

#include <fmt/format.h>

#include "core/text.hpp"

namespace ccoll::gpu_check {

std::span<const Run> all_runs() {
  static const Run kRuns[] = {
      {"a",
       "one process: kernels, and ranks that are threads",
       240,
       {"first", "probe", "kernels", "teams", "communicators"}},
      {"b",
       "processes that share the GPU, graphs, faults, compute-sanitizer",
       240,
       {"processes", "ways", "faults", "graphs", "adversary", "sanitizers"}},
      {"c", "figures beside the GPU's limits", 200, {"figures"}},
      {"d",
       "the NCCL face: its conformance program, and PyTorch and CuPy by LD_PRELOAD",
       200,
       {"nccl", "torch", "cupy"}},
      {"e",
       "the Python package: arrays of torch, CuPy and JAX, and torch.distributed over it",
       100,
       {"arrays", "backend"}},
  };
  return kRuns;
}

std::string plan() {
  std::string text =
      "A machine for 15 minutes, at most 10 of them in one command, its start counted in:\n"
      "  1. DIR/all --out OUT\n"
      "     makes these runs in this order within 540 s, each a process with its own limit:\n";
  for (const Run& each : all_runs()) {
    text += fmt::format("       {}  at most {} s: {}\n          {}\n", each.name, each.limit_s,
                        each.what, joined(each.phases));
  }
  return text +
         "     Each begins with health: a copy and a fill. What fails does not end the others,\n"
         "     unless the GPU works no more. OUT/log.txt has all that was printed, OUT/a.json "
         "what\n"
         "     each run found, OUT/table.md what belongs at the head of docs/gpu.md.\n"
         "     Run e needs a bundle that was made with a package: tools/gpu-check --wheel FILE.\n"
         "  2. What had no time left, as runs d and e may have none:\n"
         "       DIR/all --out OUT --runs d,e --budget 300\n"
         "  3. After a fix, first what failed, with the same cases (the seed stands in table.md):\n"
         "       DIR/run --out OUT --only PHASE,... --seed N\n"
         "     then the run that it is of, and those behind it:\n"
         "       DIR/all --out OUT --runs b,c --budget 240\n"
         "  4. If little time is left: DIR/run --out OUT --only first,figures --budget 120\n";
}

}  // namespace ccoll::gpu_check
