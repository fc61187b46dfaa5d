// SPDX-License-Identifier: Apache-2.0
#include "verify/dataflow.hpp"

#include <algorithm>

#include "schedule/text.hpp"

namespace ccoll::detail {
namespace {

struct Message {
  Range values;
  std::uint32_t window = 0;
  std::uint64_t depth = 0;
};

struct ScratchCell {
  Value value;
  std::uint32_t window = kNone;  ///< the value counts only in this window
};

class Dataflow {
 public:
  Dataflow(const Resolved& schedule, std::uint64_t slots, Findings& findings, Report& report,
           const Watch& watch)
      : schedule_(schedule),
        problem_(schedule.problem),
        slots_(slots),
        findings_(findings),
        report_(report),
        watch_(watch),
        combinations_(problem_.size),
        outputs_(std::size_t{problem_.size} * schedule.blocks * schedule.windows),
        scratch_(schedule.scratch_cells),
        queues_(schedule.links.size() * slots),
        links_(schedule.links.size()),
        depths_(schedule.lanes.size()),
        target_depths_(std::size_t{schedule.targets} * schedule.windows),
        messages_sent_(std::size_t{problem_.size} * schedule.windows),
        elems_sent_(problem_.size) {}

  void run(const std::vector<StepRun>& trace) {
    for (const StepRun& at : trace) {
      run_step(at);
      if (findings_.full()) return;
    }
    check_outputs();
    if (problem_.size != 0 && !messages_sent_.empty()) {
      report_.max_messages = *std::ranges::max_element(messages_sent_);
    }
    report_.max_elems_sent = *std::ranges::max_element(elems_sent_);
  }

 private:
  std::uint32_t origin(std::uint32_t block, std::uint32_t window) const {
    return window * schedule_.blocks + block;
  }
  Value& output(Rank rank, std::uint32_t block, std::uint32_t window) {
    return outputs_[rank * schedule_.cells() + origin(block, window)];
  }
  std::string place(const StepRun& at) const {
    return schedule_.place(at.lane, at.step, at.window);
  }

  void run_step(const StepRun& at) {
    const ResolvedStep& step = schedule_.step(at.lane, at.step);
    std::uint64_t& depth = depths_[at.lane];
    if (at.step == 0) depth = 0;
    if (step.after_lane != kNone) {
      const std::uint32_t target = schedule_.step(step.after_lane, step.after_step).target;
      depth = std::max(depth, target_depths_[target * std::size_t{schedule_.windows} + at.window]);
    }
    result_.clear();
    if (schedule_.active(step, at.window)) move_values(at, step, depth);
    if (watch_) watch_({at, depth, result_}, combinations_);
    if (step.target != kNone) {
      target_depths_[step.target * std::size_t{schedule_.windows} + at.window] = depth;
    }
  }

  void move_values(const StepRun& at, const ResolvedStep& step, std::uint64_t& depth) {
    measure_layout(at, step);
    result_.assign(sizes_.size(), Value{kPoison, 0});
    if (gather_sources(at, step, depth)) {
      for (std::size_t i = 0; i < sizes_.size(); ++i) result_[i] = combine(at, step, i);
    }
    store(at, step);
    if (step.sends.begin != step.sends.end) send(at, step, depth);
  }

  void measure_layout(const StepRun& at, const ResolvedStep& step) {
    sizes_.clear();
    for (const Segment& segment : schedule_.layout(step)) {
      const std::uint64_t elems = schedule_.elems_of(segment, at.window);
      if (elems != 0) sizes_.push_back(elems);
    }
  }

  /// Puts the values of all sources into `sources_`, in rank order, one source after another. False
  /// if their sizes differ.
  bool gather_sources(const StepRun& at, const ResolvedStep& step, std::uint64_t& depth) {
    sources_.clear();
    source_count_ = 0;
    bool fits = true;
    const auto receives = schedule_.links_of(step.receives);
    const bool has_local = step.local.begin != step.local.end;
    for (std::uint32_t i = 0; i <= receives.size(); ++i) {
      if (has_local && i == step.own_place) read_local(at, step);
      if (i < receives.size()) fits = receive(at, receives[i], depth) && fits;
    }
    return fits;
  }

  void read_local(const StepRun& at, const ResolvedStep& step) {
    ++source_count_;
    for (const Segment& segment : schedule_.segments_of(step.local)) {
      if (schedule_.elems_of(segment, at.window) == 0) continue;
      Value value = read(at, segment);
      if (value.expression == kUndefined) {
        findings_.add(FindingKind::undefined, "{}: reads {} block {}, where nothing was stored",
                      place(at), to_string(segment.buffer), segment.block);
        value.expression = kPoison;
      }
      sources_.push_back(value);
    }
  }

  Value read(const StepRun& at, const Segment& segment) {
    const ResolvedLane& lane = schedule_.lanes[at.lane];
    if (segment.buffer == Buffer::scratch) {
      const ScratchCell& cell = scratch_[schedule_.scratch_cell(lane, segment.block)];
      return cell.window == at.window ? cell.value : Value{};
    }
    const Value stored = output(lane.rank, segment.block, at.window);
    if (segment.buffer == Buffer::output) return stored;
    const Value own{Combinations::leaf(lane.rank), origin(segment.block, at.window)};
    if (may_be_in_place(problem_.kind) && stored.expression != kUndefined &&
        stored.expression != kPoison && stored != own) {
      findings_.add(FindingKind::in_place,
                    "{}: reads input block {} after output block {}, the same memory where the "
                    "call is in place, was stored",
                    place(at), segment.block, segment.block);
    }
    return own;
  }

  bool receive(const StepRun& at, std::uint32_t link, std::uint64_t& depth) {
    ++source_count_;
    const Message message = messages_[queues_[link * slots_ + links_[link].popped++ % slots_]];
    depth = std::max(depth, message.depth);
    if (message.window != at.window) {
      findings_.add(FindingKind::links, "{}: the next slice from {} is of window {}", place(at),
                    schedule_.link_name(link), message.window);
      return false;
    }
    const std::uint32_t count = message.values.end - message.values.begin;
    bool fits = count == sizes_.size();
    for (std::uint32_t i = 0; i < count; ++i) {
      const Value value = values_[message.values.begin + i];
      // A poisoned value has no size of its own.
      if (fits && value.expression != kPoison && elems_of(value) != sizes_[i]) {
        fits = false;
      }
      sources_.push_back(value);
    }
    if (!fits) report_sizes(at, link, message);
    return fits;
  }

  /// If sizes are private nothing is combined, so a value is some rank's input.
  std::uint64_t elems_of(const Value& value) const {
    const std::uint32_t sizes =
        schedule_.private_sizes ? schedule_.sizes_of(value.expression, Buffer::input) : 0;
    return schedule_.elems[sizes * schedule_.cells() + value.origin];
  }

  void report_sizes(const StepRun& at, std::uint32_t link, const Message& message) {
    std::string sent;
    for (std::uint32_t i = message.values.begin; i < message.values.end; ++i) {
      sent += fmt::format(" {}", values_[i].expression == kPoison
                                     ? std::string("?")
                                     : fmt::format("{}", elems_of(values_[i])));
    }
    std::string expected;
    for (const std::uint64_t size : sizes_) expected += fmt::format(" {}", size);
    findings_.add(FindingKind::sizes,
                  "{}: the slice from {} has blocks of{} elements, expected are{}", place(at),
                  schedule_.link_name(link), sent, expected);
  }

  Value combine(const StepRun& at, const ResolvedStep& step, std::size_t i) {
    const Value first = sources_[i];
    expressions_.clear();
    for (std::size_t source = 0; source < source_count_; ++source) {
      const Value value = sources_[source * sizes_.size() + i];
      if (value.expression == kPoison) return {kPoison, 0};
      if (value.origin != first.origin) {
        findings_.add(FindingKind::result,
                      "{}: combines block {} window {} with block {} window {}", place(at),
                      first.origin % schedule_.blocks, first.origin / schedule_.blocks,
                      value.origin % schedule_.blocks, value.origin / schedule_.blocks);
        return {kPoison, 0};
      }
      expressions_.push_back(value.expression);
    }
    if (!check_combination(at, step, first.origin)) return {kPoison, 0};
    const Expression result = combinations_.combine(expressions_, step.finish);
    if (step.finish && !combinations_.has_all(result, exactly_once())) {
      const auto times = combinations_.multiplicities(result);
      const bool repeats = std::ranges::any_of(times, [](std::uint64_t time) { return time > 1; });
      findings_.add(FindingKind::finish, "{}: finishes block {} {}: {}", place(at),
                    first.origin % schedule_.blocks,
                    repeats ? "with a contribution in it more than once" : "too early",
                    combinations_.describe(result));
    }
    return {result, first.origin};
  }

  bool check_combination(const StepRun& at, const ResolvedStep& step, std::uint32_t from) {
    if (expressions_.size() > 1 && !reduces(problem_.kind)) {
      findings_.add(FindingKind::result, "{}: combines {} sources of block {}, but {} only copies",
                    place(at), expressions_.size(), from % schedule_.blocks,
                    to_string(problem_.kind));
      return false;
    }
    // A barrier combines idempotently and has nothing to divide.
    if (problem_.kind == Kind::barrier) return true;
    for (const Expression expression : expressions_) {
      if (combinations_.finished(expression) && (step.finish || expressions_.size() > 1)) {
        findings_.add(FindingKind::finish, "{}: {} block {}, which is finished already", place(at),
                      step.finish ? "finishes" : "combines", from % schedule_.blocks);
        return false;
      }
    }
    return true;
  }

  bool exactly_once() const { return problem_.kind != Kind::barrier; }

  void store(const StepRun& at, const ResolvedStep& step) {
    const ResolvedLane& lane = schedule_.lanes[at.lane];
    std::size_t next = 0;
    for (const Segment& segment : schedule_.segments_of(step.store)) {
      const std::uint64_t elems = schedule_.elems_of(segment, at.window);
      if (elems == 0) continue;
      if (next == sizes_.size() || sizes_[next] != elems) {
        next = sizes_.size() + 1;
        break;
      }
      if (segment.buffer == Buffer::scratch) {
        scratch_[schedule_.scratch_cell(lane, segment.block)] = {result_[next], at.window};
      } else {
        output(lane.rank, segment.block, at.window) = result_[next];
      }
      ++next;
    }
    if (step.store.begin != step.store.end && next != sizes_.size()) {
      findings_.add(FindingKind::sizes, "{}: what it reads and what it stores differ in size",
                    place(at));
    }
  }

  void send(const StepRun& at, const ResolvedStep& step, std::uint64_t depth) {
    const auto begin = static_cast<std::uint32_t>(values_.size());
    values_.insert(values_.end(), result_.begin(), result_.end());
    const auto message = static_cast<std::uint32_t>(messages_.size());
    messages_.push_back(
        {{begin, static_cast<std::uint32_t>(values_.size())}, at.window, depth + 1});
    std::uint64_t elems = 0;
    for (const std::uint64_t size : sizes_) elems += size;
    const auto sends = schedule_.links_of(step.sends);
    for (const std::uint32_t link : sends) {
      queues_[link * slots_ + links_[link].pushed++ % slots_] = message;
    }
    const Rank rank = schedule_.lanes[at.lane].rank;
    messages_sent_[std::size_t{rank} * schedule_.windows + at.window] += sends.size();
    elems_sent_[rank] += elems * sends.size();
    report_.depth = std::max(report_.depth, depth + 1);
    report_.max_blocks_per_message =
        std::max(report_.max_blocks_per_message, static_cast<std::uint32_t>(sizes_.size()));
  }

  void check_outputs() {
    for (std::uint32_t window = 0; window < schedule_.windows; ++window) {
      for (std::uint32_t block = 0; block < schedule_.blocks; ++block) {
        Expression agreed = kUndefined;
        for (Rank rank = 0; rank < problem_.size; ++rank) {
          if (!has_output(problem_, rank, block) || is_empty(rank, block, window)) continue;
          if (!check_output(rank, block, window)) continue;
          const Expression held = output(rank, block, window).expression;
          if (agreed == kUndefined) tell_order(block, agreed = held);
          if (held == agreed || problem_.kind == Kind::barrier || !reduces(problem_.kind)) continue;
          findings_.add(FindingKind::order,
                        "rank {} output block {} window {}: the same contributions as on other "
                        "ranks, combined in another order",
                        rank, block, window);
        }
        if (findings_.full()) return;
      }
    }
  }

  void tell_order(std::uint32_t block, Expression expression) {
    if (!reduces(problem_.kind) || problem_.size > Report::kMostRanksInOrders) return;
    if (report_.orders.empty()) report_.orders.resize(schedule_.blocks);
    std::string& order = report_.orders[block];
    if (order.empty()) order = combinations_.text(expression);
  }

  bool is_empty(Rank rank, std::uint32_t block, std::uint32_t window) const {
    const Segment segment{Buffer::output, block, schedule_.sizes_of(rank, Buffer::output)};
    return schedule_.elems_of(segment, window) == 0;
  }

  bool check_output(Rank rank, std::uint32_t block, std::uint32_t window) {
    const Value held = output(rank, block, window);
    if (held.expression == kPoison) return false;
    const std::string where = findings_place(rank, block, window, held);
    if (!where.empty()) {
      findings_.add(FindingKind::result, "{}", where);
      return false;
    }
    if (!reduces(problem_.kind)) return true;
    report_.roundings = std::max(report_.roundings, combinations_.roundings(held.expression));
    if (problem_.kind != Kind::barrier && !combinations_.finished(held.expression)) {
      findings_.add(FindingKind::finish, "rank {} output block {} window {}: never finished", rank,
                    block, window);
      return false;
    }
    return true;
  }

  /// The text of what is wrong with an output's contents; empty if nothing is.
  std::string findings_place(Rank rank, std::uint32_t block, std::uint32_t window, Value held) {
    const InputBlock source = source_of(problem_, rank, block);
    const Value expected{Combinations::leaf(source.rank), origin(source.block, window)};
    const bool right =
        held.expression != kUndefined && held.origin == expected.origin &&
        (reduces(problem_.kind) ? combinations_.has_all(held.expression, exactly_once())
                                : held.expression == expected.expression);
    if (right) return {};
    std::string text = fmt::format("rank {} output block {} window {}: ", rank, block, window);
    if (held.expression == kUndefined) return text + "nothing was stored there";
    text +=
        fmt::format("holds block {} window {}, contributions {}; expected is block {}",
                    held.origin % schedule_.blocks, held.origin / schedule_.blocks,
                    combinations_.describe(held.expression), expected.origin % schedule_.blocks);
    text += reduces(problem_.kind) ? std::string(" with every rank's")
                                   : fmt::format(" of rank {}", expected.expression);
    return text;
  }

  const Resolved& schedule_;
  const Problem& problem_;
  const std::uint64_t slots_;
  Findings& findings_;
  Report& report_;
  const Watch& watch_;
  Combinations combinations_;
  std::vector<Value> outputs_;  ///< by rank, window and block
  std::vector<ScratchCell> scratch_;
  std::vector<std::uint32_t> queues_;  ///< `slots_` message numbers per link
  std::vector<LinkState> links_;
  std::vector<Message> messages_;
  std::vector<Value> values_;                 ///< of all messages
  std::vector<std::uint64_t> depths_;         ///< by lane, in its current window
  std::vector<std::uint64_t> target_depths_;  ///< by target and window
  std::vector<std::uint64_t> messages_sent_;  ///< by rank and window
  std::vector<std::uint64_t> elems_sent_;     ///< by rank
  // For the current step:
  std::vector<std::uint64_t> sizes_;  ///< of the blocks with elements
  std::vector<Value> sources_;
  std::size_t source_count_ = 0;
  std::vector<Value> result_;
  std::vector<Expression> expressions_;
};

}  // namespace

void check_dataflow(const Resolved& schedule, const Execution& execution, std::uint64_t slots,
                    Findings& findings, Report& report, const Watch& watch) {
  Dataflow(schedule, slots, findings, report, watch).run(execution.trace);
}

}  // namespace ccoll::detail
