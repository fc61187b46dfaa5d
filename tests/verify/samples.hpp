// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Small, correct schedules written by hand: the verifier must accept them, and reject them after
/// any change.

#include <vector>

#include "schedule/schedule.hpp"

namespace ccoll::samples {

inline Operand input(std::uint32_t block) { return {Buffer::input, block, 1}; }
inline Operand output(std::uint32_t block) { return {Buffer::output, block, 1}; }

inline Step step(std::vector<Receive> receives, std::vector<Operand> local,
                 std::vector<Operand> store, std::vector<Rank> sends) {
  Step made;
  made.receives = std::move(receives);
  made.local = std::move(local);
  made.store = std::move(store);
  made.sends = std::move(sends);
  return made;
}

/// Ring all_reduce of n ≥ 2 ranks.
inline std::vector<Program> ring(Rank n) {
  std::vector<Program> programs;
  for (Rank rank = 0; rank < n; ++rank) {
    const Rank next = (rank + 1) % n;
    const Rank prev = (rank + n - 1) % n;
    Program& program = programs.emplace_back(Program{rank, n, n, 1, {}});
    auto& steps = program.lanes.emplace_back().steps;
    steps.push_back(step({}, {input(rank)}, {}, {next}));
    steps.back().lend = Lend::always;
    for (Rank i = 1; i + 1 < n; ++i) {
      steps.push_back(step({{prev, 0}}, {input((rank + n - i) % n)}, {}, {next}));
    }
    steps.push_back(step({{prev, 0}}, {input(next)}, {output(next)}, {next}));
    steps.back().finish = true;
    steps.back().lend = Lend::always;
    for (Rank i = 0; i + 2 < n; ++i) {
      steps.push_back(step({{prev, 0}}, {}, {output((rank + n - i) % n)}, {next}));
      steps.back().lend = Lend::always;
    }
    steps.push_back(step({{prev, 0}}, {}, {output((rank + 2) % n)}, {}));
  }
  return programs;
}

/// Two ranks all_reduce: both send, then both receive.
inline std::vector<Program> exchange() {
  std::vector<Program> programs;
  for (Rank rank = 0; rank < 2; ++rank) {
    Program& program = programs.emplace_back(Program{rank, 2, 1, 1, {}});
    auto& steps = program.lanes.emplace_back().steps;
    steps.push_back(step({}, {input(0)}, {}, {1 - rank}));
    steps.back().lend = Lend::if_separate;
    steps.push_back(step({{1 - rank, 0}}, {input(0)}, {output(0)}, {}));
    steps.back().finish = true;
  }
  return programs;
}

/// All_reduce over a root and two leaves: lane 0 goes up, lane 1 down.
inline std::vector<Program> tree() {
  std::vector<Program> programs;
  for (Rank rank = 0; rank < 3; ++rank) {
    Program& program = programs.emplace_back(Program{rank, 3, 1, 1, {}});
    program.lanes.resize(2);
    auto& up = program.lanes[0].steps;
    auto& down = program.lanes[1].steps;
    if (rank == 0) {
      up.push_back(step({{1, 0}, {2, 0}}, {input(0)}, {output(0)}, {}));
      up.back().finish = true;
      down.push_back(step({}, {output(0)}, {}, {1, 2}));
      down.back().lend = Lend::always;
      down.back().after = After{0, 0};
    } else {
      up.push_back(step({}, {input(0)}, {}, {0}));
      up.back().lend = Lend::always;
      down.push_back(step({{0, 1}}, {}, {output(0)}, {}));
    }
  }
  return programs;
}

}  // namespace ccoll::samples
