// SPDX-License-Identifier: Apache-2.0
#include "verify/races.hpp"

#include <algorithm>
#include <utility>

#include "schedule/text.hpp"
#include "verify/clocks.hpp"

namespace ccoll::detail {
namespace {

/// An earlier access to a cell. The blocks of one rank's input and output share cells by number,
/// because they may be the same memory; scratch has its own.
struct Access {
  enum class What : std::uint8_t { read, write, lend };
  What what;
  Buffer buffer;
  std::uint32_t run;          ///< index in the trace
  std::uint32_t message = 0;  ///< for a lend
  std::uint32_t next;         ///< the previous access to the same cell
};

class Races {
 public:
  Races(const Resolved& schedule, const Execution& execution, std::uint64_t slots)
      : schedule_(schedule),
        trace_(execution.trace),
        slots_(slots),
        io_cells_(schedule.problem.size * schedule.cells(), kNone),
        scratch_cells_(schedule.scratch_cells, kNone),
        queues_(schedule.links.size() * slots),
        links_(schedule.links.size()) {}

  /// The pairs that must be ordered, sorted by the later one's place in the trace.
  std::vector<OrderQuery> queries() {
    for (std::uint32_t run = 0; run < trace_.size(); ++run) {
      const ResolvedStep& step = schedule_.step(trace_[run].lane, trace_[run].step);
      if (schedule_.active(step, trace_[run].window)) visit(run, step);
    }
    return std::move(queries_);
  }

 private:
  void visit(std::uint32_t run, const ResolvedStep& step) {
    for (const std::uint32_t link : schedule_.links_of(step.receives)) {
      const std::uint32_t message = queues_[link * slots_ + links_[link].popped++ % slots_];
      // Only lent messages have a list of pops.
      if (message != kNone) pops_.push_back({run, std::exchange(first_pop_[message], next_pop())});
    }
    for_cells(run, step.local, [&](const Segment& segment, std::uint32_t& cell) {
      access(run, segment, cell, Access::What::read, 0);
    });
    for_cells(run, step.store, [&](const Segment& segment, std::uint32_t& cell) {
      access(run, segment, cell, Access::What::write, 0);
    });
    push(run, step);
  }

  std::uint32_t next_pop() const { return static_cast<std::uint32_t>(pops_.size()); }

  void push(std::uint32_t run, const ResolvedStep& step) {
    std::uint32_t message = kNone;
    if (step.lend != Lend::never) {
      message = static_cast<std::uint32_t>(first_pop_.size());
      first_pop_.push_back(kNone);
      sends_of_.push_back(step.sends.end - step.sends.begin);
      const Range lent = step.store.begin != step.store.end ? step.store : step.local;
      for_cells(run, lent, [&](const Segment& segment, std::uint32_t& cell) {
        // Input is written only if it is also output, and in that case this lends nothing.
        if (segment.buffer == Buffer::input && step.lend == Lend::if_separate) return;
        access(run, segment, cell, Access::What::lend, message);
      });
    }
    for (const std::uint32_t link : schedule_.links_of(step.sends)) {
      queues_[link * slots_ + links_[link].pushed++ % slots_] = message;
    }
  }

  template <typename Visit>
  void for_cells(std::uint32_t run, Range range, const Visit& visit) {
    const StepRun& at = trace_[run];
    const ResolvedLane& lane = schedule_.lanes[at.lane];
    for (const Segment& segment : schedule_.segments_of(range)) {
      if (schedule_.elems_of(segment, at.window) == 0) continue;
      if (segment.buffer == Buffer::scratch) {
        visit(segment, scratch_cells_[schedule_.scratch_cell(lane, segment.block)]);
      } else {
        visit(segment, io_cells_[lane.rank * schedule_.cells() +
                                 std::size_t{at.window} * schedule_.blocks + segment.block]);
      }
    }
  }

  void access(std::uint32_t run, const Segment& segment, std::uint32_t& cell, Access::What what,
              std::uint32_t message) {
    for (std::uint32_t i = cell; i != kNone; i = accesses_[i].next) {
      if (conflict(accesses_[i], what, segment.buffer)) require(accesses_[i], run, segment);
    }
    // A lane's own plain accesses are in order, and no other lane has its scratch.
    if (segment.buffer == Buffer::scratch && what != Access::What::lend) return;
    accesses_.push_back({what, segment.buffer, run, message, cell});
    cell = static_cast<std::uint32_t>(accesses_.size() - 1);
  }

  bool conflict(const Access& earlier, Access::What what, Buffer buffer) const {
    const bool writes = earlier.what == Access::What::write || what == Access::What::write;
    return writes && (earlier.buffer == buffer || may_be_in_place(schedule_.problem.kind));
  }

  void require(const Access& earlier, std::uint32_t run, const Segment& segment) {
    if (earlier.what != Access::What::lend) {
      if (trace_[earlier.run].lane == trace_[run].lane) return;
      queries_.push_back(
          {run, earlier.run, earlier.run, segment.buffer, segment.block, earlier.buffer, false});
      return;
    }
    std::uint32_t pops = 0;
    for (std::uint32_t i = first_pop_[earlier.message]; i != kNone; i = pops_[i].next) {
      queries_.push_back(
          {run, pops_[i].run, earlier.run, segment.buffer, segment.block, earlier.buffer, true});
      ++pops;
    }
    // If a pop comes only later in this order, it does not come before in every order.
    if (pops < sends_of_[earlier.message]) {
      queries_.push_back(
          {run, kNone, earlier.run, segment.buffer, segment.block, earlier.buffer, true});
    }
  }

  struct Pop {
    std::uint32_t run;
    std::uint32_t next;
  };

  const Resolved& schedule_;
  const std::vector<StepRun>& trace_;
  const std::uint64_t slots_;
  std::vector<std::uint32_t> io_cells_;       ///< by rank, window, block: the latest access
  std::vector<std::uint32_t> scratch_cells_;  ///< by scratch cell: the latest access
  std::vector<Access> accesses_;
  std::vector<std::uint32_t> queues_;  ///< `slots_` lent messages, or none, for each link
  std::vector<LinkState> links_;
  std::vector<std::uint32_t> first_pop_;  ///< by lent message
  std::vector<std::uint32_t> sends_of_;   ///< by lent message
  std::vector<Pop> pops_;
  std::vector<OrderQuery> queries_;
};

void report(const Resolved& schedule, const std::vector<StepRun>& trace, const OrderQuery& query,
            Findings& findings) {
  const auto place = [&](std::uint32_t run) {
    return schedule.place(trace[run].lane, trace[run].step, trace[run].window);
  };
  const std::string where =
      query.buffer == query.earlier_buffer
          ? std::string()
          : fmt::format(", where {} and {} are the same memory", to_string(query.buffer),
                        to_string(query.earlier_buffer));
  if (query.lent) {
    findings.add(FindingKind::race, "{}: writes {} block {} while it may still be lent by {}{}",
                 place(query.later), to_string(query.buffer), query.block, place(query.access),
                 where);
  } else {
    findings.add(FindingKind::race, "{}: uses {} block {} while {} may be using it{}",
                 place(query.later), to_string(query.buffer), query.block, place(query.access),
                 where);
  }
}

}  // namespace

void check_races(const Resolved& schedule, const Execution& execution, std::uint64_t slots,
                 Findings& findings) {
  const std::vector<OrderQuery> queries = Races(schedule, execution, slots).queries();
  if (queries.empty()) return;
  for (const std::size_t failed : unordered_queries(schedule, execution, slots, queries)) {
    report(schedule, execution.trace, queries[failed], findings);
    if (findings.full()) return;
  }
}

}  // namespace ccoll::detail
