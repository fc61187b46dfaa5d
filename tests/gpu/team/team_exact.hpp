// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Inputs of a team's call for which the operation's definition alone determines the result.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bench/measure/data.hpp"
#include "team_memory.hpp"
#include "verify/resolve.hpp"

namespace ccoll::test {

/// Fills inputs for which no order of adding rounds, and checks outputs against the only possible
/// result.
class Exact {
 public:
  explicit Exact(const TeamCase& of)
      : of_(of),
        patterns_({of.type, reduces(of.problem.kind) ? std::optional(of.op) : std::nullopt,
                   static_cast<int>(of.problem.size)}) {}

  void fill(TeamMemory& memory) {
    for_blocks(memory, Buffer::input, [&](Rank rank, std::uint32_t block, std::byte* data) {
      bench::fill(data, elems(memory, rank, block, Buffer::input), memory.elem_bytes(),
                  patterns_.input(static_cast<int>(rank)), first(block));
    });
  }
  std::uint64_t count_wrong(TeamMemory& memory) {
    std::uint64_t wrong = 0;
    for_blocks(memory, Buffer::output, [&](Rank rank, std::uint32_t block, std::byte* data) {
      const auto source = detail::source_of(of_.problem, rank, block);
      const auto pattern = reduces(of_.problem.kind)
                               ? patterns_.reduced()
                               : patterns_.input(static_cast<int>(source.rank));
      wrong += bench::count_wrong(data, elems(memory, rank, block, Buffer::output),
                                  memory.elem_bytes(), pattern, first(source.block));
    });
    return wrong;
  }

 private:
  /// The index in the pattern at which an input block begins.
  static std::uint64_t first(std::uint32_t block) { return std::uint64_t{block} * 131; }
  static std::uint64_t elems(const TeamMemory& memory, Rank rank, std::uint32_t block, Buffer in) {
    const auto view = memory.view(rank);
    return block_elems(view, view.size, block, in);
  }
  template <typename Visit>
  void for_blocks(TeamMemory& memory, Buffer buffer, const Visit& visit) {
    const bool input = buffer == Buffer::input;
    for (Rank rank = 0; rank < of_.problem.size; rank++) {
      const auto view = memory.view(rank);
      for (std::uint32_t block = 0; block < view.size; block++) {
        const bool has = input ? detail::has_input(of_.problem, rank, block)
                               : detail::has_output(of_.problem, rank, block);
        if (!has) continue;
        const auto offset = holds_own_block_only(view.kind, buffer)
                                ? 0
                                : block_offset(view, view.size, block, buffer);
        std::byte* const data = input ? memory.input(rank) : memory.output(rank);
        visit(rank, block, data + offset * memory.elem_bytes());
      }
    }
  }

  TeamCase of_;
  bench::Patterns patterns_;
};

}  // namespace ccoll::test
