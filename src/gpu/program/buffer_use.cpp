// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/buffer_use.hpp"

namespace ccoll::device {
namespace {

class Using {
 public:
  explicit Using(const LoweredTeam& team) : team_(team), program_(team.program) {}

  void add(const TeamBlock& block) {
    for (std::uint32_t i = block.steps.begin; i < block.steps.end; ++i) {
      const TeamStep& step = team_.steps[i];
      add(out_.used, step.local);
      add(out_.used, step.store);
      for (std::uint32_t send = step.sends.begin; send < step.sends.end; ++send) {
        const TeamLoan& loan = team_.ends[send].loan;
        add(out_.lendable, loan.parts);
        const bool is_of_caller = loan.is_any() && loan.buffer < program_.workspace;
        const bool is_in_scratch = loan.is_any() && !is_of_caller && !loan.if_separate;
        if (is_in_scratch || program_.by_words) continue;
        out_.sent.push_back({is_of_caller ? loan.buffer % 2 : 2, loan.if_separate,
                             bytes_of(step.has_local() ? step.local : step.store, block.stripe)});
      }
    }
  }
  BufferUse take() { return std::move(out_); }

 private:
  void add(std::array<Extent, 2>& to, Range parts) const {
    for (std::uint32_t i = parts.begin; i < parts.end; ++i) {
      const TeamPart& part = team_.parts[i];
      if (part.buffer < program_.workspace) to[part.buffer % 2].add(part.offset, part.bytes);
    }
  }
  /// The parts' bytes in the windows of a stripe.
  std::uint64_t bytes_of(Range parts, std::uint32_t stripe) const {
    std::uint64_t bytes = 0;
    for (std::uint64_t window = stripe; window < program_.windows; window += program_.stripes) {
      for (std::uint32_t i = parts.begin; i < parts.end; ++i)
        bytes += program_.bytes_of(team_.parts[i], window);
    }
    return bytes;
  }

  const LoweredTeam& team_;
  const TeamProgram& program_;
  BufferUse out_;
};

}  // namespace

BufferUse use_of_buffers(const LoweredTeam& team, std::uint32_t rank) {
  Using use(team);
  for (const TeamBlock& block : team.blocks)
    if (block.rank == rank) use.add(block);
  return use.take();
}

}  // namespace ccoll::device
