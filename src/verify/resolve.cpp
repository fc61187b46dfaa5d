// SPDX-License-Identifier: Apache-2.0
#include "verify/resolve.hpp"

#include <algorithm>
#include <utility>

#include "schedule/text.hpp"

namespace ccoll::detail {
namespace {

/// Limit on each kind of thing in one verification: far beyond what is useful, but small enough for
/// memory.
constexpr std::uint64_t kMaxCells = std::uint64_t{1} << 26;

bool all_blocks_whole(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::broadcast ||
         kind == Kind::barrier;
}

class Resolver {
 public:
  Resolver(const Problem& problem, const Choice& choice, const Schedule& schedule,
           Findings& findings)
      : problem_(problem), choice_(choice), findings_(findings) {
    programs_.reserve(problem.size);
    for (Rank rank = 0; rank < problem.size; ++rank) programs_.push_back(schedule(rank));
  }

  std::optional<Resolved> run() {
    if (!check_programs() || !check_size()) return std::nullopt;
    number_lanes();
    for (Rank rank = 0; rank < problem_.size; ++rank) {
      for (std::uint32_t lane = 0; lane < programs_[rank].lanes.size(); ++lane) {
        check_lane(rank, lane);
        if (findings_.full()) return std::nullopt;
      }
    }
    if (!findings_.empty()) return std::nullopt;
    add_steps();
    if (!findings_.empty()) return std::nullopt;
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void malformed(fmt::format_string<Args...> format, Args&&... args) {
    findings_.add(FindingKind::malformed, format, std::forward<Args>(args)...);
  }

  bool check_programs() {
    const Program& first = programs_.front();
    for (Rank rank = 0; rank < problem_.size; ++rank) {
      const Program& program = programs_[rank];
      if (program.rank != rank || program.size != problem_.size) {
        malformed("rank {}'s program says that it is rank {} of {}, of {} ranks", rank,
                  program.rank, program.size, problem_.size);
      } else if (program.blocks != first.blocks || program.stripes != first.stripes) {
        malformed("rank {} has {} blocks and {} stripes, rank 0 has {} and {}", rank,
                  program.blocks, program.stripes, first.blocks, first.stripes);
      }
    }
    if (first.blocks == 0 || first.stripes == 0) {
      malformed("{} blocks and {} stripes; at least 1 of each", first.blocks, first.stripes);
    } else if (!all_blocks_whole(problem_.kind) && first.blocks != problem_.size) {
      malformed("{} blocks, but {} has one per rank: {}", first.blocks, to_string(problem_.kind),
                problem_.size);
    }
    return findings_.empty();
  }

  bool check_size() {
    out_.problem = problem_;
    out_.blocks = programs_.front().blocks;
    out_.stripes = programs_.front().stripes;
    const std::uint64_t windows = window_count(problem_, out_.blocks, choice_);
    std::uint64_t lanes = 0;
    std::uint64_t segments = 0;
    for (const Program& program : programs_) {
      lanes += program.lanes.size();
      for (const Lane& lane : program.lanes) {
        for (const Step& step : lane.steps) {
          for (const Operand& operand : step.local) segments += operand.blocks;
          for (const Operand& operand : step.store) segments += operand.blocks;
        }
      }
    }
    const auto too_many = [](std::uint64_t a, std::uint64_t b) { return b > kMaxCells / (a + 1); };
    if (segments > kMaxCells || too_many(lanes, problem_.size) || windows > kMaxCells ||
        too_many(windows * problem_.size, out_.blocks)) {
      malformed("{} windows of {} blocks, {} lanes and {} operand blocks are too many to verify",
                windows, out_.blocks, lanes, segments);
      return false;
    }
    out_.windows = static_cast<std::uint32_t>(windows);
    out_.private_sizes = sizes_are_private(problem_);
    if (out_.private_sizes) {
      for (Rank rank = 0; rank < problem_.size; ++rank) {
        const Problem view = view_of(problem_, rank);
        add_sizes(view, Buffer::input);
        add_sizes(view, Buffer::output);
      }
    } else {
      add_sizes(problem_, Buffer::input);
    }
    return true;
  }

  void add_sizes(const Problem& view, Buffer buffer) {
    for (std::uint32_t window = 0; window < out_.windows; ++window) {
      for (std::uint32_t block = 0; block < out_.blocks; ++block) {
        out_.elems.push_back(slice_of(view, out_.blocks, block, window, choice_, buffer).elems);
      }
    }
  }

  void number_lanes() {
    for (const Program& program : programs_) {
      out_.lanes_begin.push_back(static_cast<std::uint32_t>(out_.lanes.size()));
      for (std::size_t number = 0; number < program.lanes.size(); ++number) {
        const Lane& lane = program.lanes[number];
        ResolvedLane& resolved = out_.lanes.emplace_back();
        resolved.rank = program.rank;
        resolved.number = static_cast<std::uint16_t>(number);
        resolved.stripe = lane.stripe;
        resolved.scratch_block = lane.scratch_block % out_.blocks;
        resolved.scratch_blocks = lane.scratch_blocks;
        resolved.scratch_begin = out_.scratch_cells;
        out_.scratch_cells += std::min(lane.scratch_blocks, out_.blocks);
      }
    }
    out_.lanes_begin.push_back(static_cast<std::uint32_t>(out_.lanes.size()));
  }

  void check_lane(Rank rank, std::uint32_t number) {
    const Lane& lane = programs_[rank].lanes[number];
    if (lane.stripe >= out_.stripes) {
      malformed("rank {} lane {}: stripe {} of {}", rank, number, lane.stripe, out_.stripes);
    }
    if (lane.scratch_blocks > out_.blocks) {
      malformed("rank {} lane {}: scratch for {} blocks of {}", rank, number, lane.scratch_blocks,
                out_.blocks);
    }
    for (std::uint32_t step = 0; step < lane.steps.size() && !findings_.full(); ++step) {
      where_ = fmt::format("rank {} lane {} step {}", rank, number, step);
      check_operands(rank, lane, lane.steps[step]);
      check_peers(rank, lane, lane.steps[step]);
      check_after(rank, number, lane, lane.steps[step]);
    }
  }

  void check_operands(Rank rank, const Lane& lane, const Step& step) {
    if (step.local.empty() && step.store.empty()) {
      malformed("{}: neither local data nor a place to store gives it a size", where_);
    } else if (step.local.empty() && step.receives.empty()) {
      malformed("{}: stores, but has no source", where_);
    }
    for (const Operand& operand : step.local) check_operand(rank, lane, operand, "reads");
    for (const Operand& operand : step.store) {
      check_operand(rank, lane, operand, "stores to");
      if (operand.buffer == Buffer::input) malformed("{}: stores to input", where_);
    }
    const bool in_memory =
        !step.store.empty() || (step.receives.empty() && !step.local.empty() && !step.finish);
    if (step.lend != Lend::never && !step.sends.empty() && !in_memory) {
      malformed("{}: lends a slice that is not in memory; store it, or do not lend it", where_);
    }
    if (step.finish && !reduces(problem_.kind)) {
      findings_.add(FindingKind::finish, "{}: finishes, but {} combines nothing", where_,
                    to_string(problem_.kind));
    }
  }

  void check_operand(Rank rank, const Lane& lane, const Operand& operand, std::string_view verb) {
    if (operand.blocks == 0 || operand.blocks > out_.blocks) {
      malformed("{}: {} {} blocks of {}", where_, verb, operand.blocks, out_.blocks);
      return;
    }
    for (std::uint32_t i = 0; i < operand.blocks; ++i) {
      const std::uint32_t block = block_of(operand, i);
      if (exists(rank, lane, operand.buffer, block)) continue;
      malformed("{}: {} {} block {}, which this rank does not have", where_, verb,
                to_string(operand.buffer), block);
      return;
    }
  }

  std::uint32_t block_of(const Operand& operand, std::uint32_t i) const {
    return static_cast<std::uint32_t>((std::uint64_t{operand.block} + i) % out_.blocks);
  }

  bool exists(Rank rank, const Lane& lane, Buffer buffer, std::uint32_t block) const {
    switch (buffer) {
      case Buffer::input:
        return has_input(problem_, rank, block);
      case Buffer::output:
        return has_output(problem_, rank, block);
      case Buffer::scratch:
        return (block + out_.blocks - lane.scratch_block % out_.blocks) % out_.blocks <
               lane.scratch_blocks;
    }
    return false;
  }

  void check_peers(Rank rank, const Lane& lane, const Step& step) {
    for (std::size_t i = 0; i < step.receives.size(); ++i) {
      const Receive& receive = step.receives[i];
      if (receive.peer >= problem_.size || receive.peer == rank ||
          receive.lane >= programs_[receive.peer].lanes.size()) {
        malformed("{}: receives from rank {} lane {}, which is not a lane of another rank", where_,
                  receive.peer, receive.lane);
      } else if (programs_[receive.peer].lanes[receive.lane].stripe != lane.stripe) {
        malformed("{}: receives from rank {} lane {}, which takes other windows", where_,
                  receive.peer, receive.lane);
      }
      if (i > 0 && receive.peer <= step.receives[i - 1].peer) {
        malformed("{}: receives are not in ascending order of rank", where_);
      }
    }
    for (std::size_t i = 0; i < step.sends.size(); ++i) {
      const Rank peer = step.sends[i];
      if (peer >= problem_.size || peer == rank) {
        malformed("{}: sends to rank {}, which is not another rank", where_, peer);
      }
      // Quadratic in fan-out only if a list is unsorted, which no algorithm's is.
      const auto before = step.sends.begin() + static_cast<std::ptrdiff_t>(i);
      const bool sorted = i == 0 || peer > step.sends[i - 1];
      if (!sorted && std::find(step.sends.begin(), before, peer) != before) {
        malformed("{}: sends twice to rank {}", where_, peer);
      }
    }
  }

  void check_after(Rank rank, std::uint32_t number, const Lane& lane, const Step& step) {
    if (!step.after) return;
    const std::vector<Lane>& lanes = programs_[rank].lanes;
    const After& after = *step.after;
    if (after.lane >= lanes.size() || after.lane == number ||
        after.step >= lanes[after.lane].steps.size()) {
      malformed("{}: comes after lane {} step {}, which is not a step of another lane", where_,
                after.lane, after.step);
    } else if (lanes[after.lane].stripe != lane.stripe) {
      malformed("{}: comes after lane {} step {}, which takes other windows", where_, after.lane,
                after.step);
    }
  }

  void add_steps() {
    link_table_.assign(out_.lanes.size() * problem_.size, kNone);
    for (std::uint32_t lane = 0; lane < out_.lanes.size(); ++lane) {
      ResolvedLane& resolved = out_.lanes[lane];
      const Lane& source = programs_[resolved.rank].lanes[resolved.number];
      resolved.steps.begin = static_cast<std::uint32_t>(out_.steps.size());
      for (std::uint32_t step = 0; step < source.steps.size(); ++step) {
        add_step(lane, source.steps[step]);
        check_overlap(lane, step);
      }
      resolved.steps.end = static_cast<std::uint32_t>(out_.steps.size());
    }
    for (std::size_t i = 0; i < out_.steps.size(); ++i) {
      if (out_.steps[i].after_lane == kNone) continue;
      const Range steps = out_.lanes[out_.steps[i].after_lane].steps;
      std::uint32_t& target = out_.steps[steps.begin + out_.steps[i].after_step].target;
      if (target == kNone) target = out_.targets++;
    }
  }

  void add_step(std::uint32_t lane, const Step& step) {
    const Rank rank = out_.lanes[lane].rank;
    ResolvedStep& resolved = out_.steps.emplace_back();
    resolved.receives.begin = static_cast<std::uint32_t>(out_.step_links.size());
    for (const Receive& receive : step.receives) {
      const std::uint32_t link = link_between(out_.lanes_begin[receive.peer] + receive.lane, rank);
      out_.step_links.push_back(link);
      if (receive.peer < rank) ++resolved.own_place;
      std::uint32_t& to_lane = out_.links[link].to_lane;
      if (to_lane != kNone && to_lane != lane) {
        findings_.add(FindingKind::links, "link {} is popped by lanes {} and {}; only one may",
                      out_.link_name(link), out_.lanes[to_lane].number, out_.lanes[lane].number);
      }
      to_lane = lane;
    }
    resolved.receives.end = static_cast<std::uint32_t>(out_.step_links.size());
    for (const Rank peer : step.sends) out_.step_links.push_back(link_between(lane, peer));
    resolved.sends = {resolved.receives.end, static_cast<std::uint32_t>(out_.step_links.size())};
    resolved.local = add_segments(rank, step.local);
    resolved.store = add_segments(rank, step.store);
    resolved.finish = step.finish;
    resolved.lend = step.sends.empty() ? Lend::never : step.lend;
    if (step.after) {
      resolved.after_lane = out_.lanes_begin[rank] + step.after->lane;
      resolved.after_step = step.after->step;
    }
  }

  std::uint32_t link_between(std::uint32_t from_lane, Rank to) {
    std::uint32_t& link = link_table_[std::size_t{from_lane} * problem_.size + to];
    if (link == kNone) {
      link = static_cast<std::uint32_t>(out_.links.size());
      out_.links.push_back({from_lane, kNone, to});
    }
    return link;
  }

  Range add_segments(Rank rank, const std::vector<Operand>& operands) {
    Range range;
    range.begin = static_cast<std::uint32_t>(out_.segments.size());
    for (const Operand& operand : operands) {
      for (std::uint32_t i = 0; i < operand.blocks; ++i) {
        out_.segments.push_back(
            {operand.buffer, block_of(operand, i), out_.sizes_of(rank, operand.buffer)});
      }
    }
    range.end = static_cast<std::uint32_t>(out_.segments.size());
    return range;
  }

  /// A step may read and write the same range (that is accumulation), but not shifted: a machine
  /// executes it piece by piece, in any order.
  void check_overlap(std::uint32_t lane, std::uint32_t number) {
    const ResolvedStep& step = out_.steps.back();
    const auto local = out_.segments_of(step.local);
    const auto store = out_.segments_of(step.store);
    if (store.size() <= 1 && local.size() <= 1) return;
    store_place_.assign(std::size_t{2} * out_.blocks, kNone);
    const auto place_of = [&](const Segment& segment) -> std::uint32_t& {
      return store_place_[(segment.buffer == Buffer::scratch ? out_.blocks : 0) + segment.block];
    };
    for (std::uint32_t i = 0; i < store.size(); ++i) {
      if (place_of(store[i]) != kNone) {
        malformed("{}: stores twice to {} block {}", out_.place(lane, number),
                  to_string(store[i].buffer), store[i].block);
      }
      place_of(store[i]) = i;
    }
    for (std::uint32_t i = 0; i < local.size(); ++i) {
      if (local[i].buffer == Buffer::input && !may_be_in_place(problem_.kind)) continue;
      const std::uint32_t stored = place_of(local[i]);
      if (stored == kNone || stored == i) continue;
      findings_.add(local[i].buffer == Buffer::input ? FindingKind::in_place : FindingKind::race,
                    "{}: reads {} block {} and overwrites it with another part of its result",
                    out_.place(lane, number), to_string(local[i].buffer), local[i].block);
    }
  }

  const Problem& problem_;
  const Choice& choice_;
  Findings& findings_;
  std::vector<Program> programs_;
  Resolved out_;
  std::string where_;
  std::vector<std::uint32_t> link_table_;   ///< by sending lane and receiving rank
  std::vector<std::uint32_t> store_place_;  ///< first of output blocks, then of scratch blocks
};

}  // namespace

bool has_input(const Problem& problem, Rank rank, std::uint32_t block) {
  switch (problem.kind) {
    case Kind::broadcast:
    case Kind::scatter:
      return rank == problem.root;
    case Kind::all_gather:
    case Kind::gather:
      return rank == block;
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::reduce_scatter:
    case Kind::all_to_all:
    case Kind::barrier:
      return true;
  }
  return false;
}

bool has_output(const Problem& problem, Rank rank, std::uint32_t block) {
  switch (problem.kind) {
    case Kind::reduce:
    case Kind::gather:
      return rank == problem.root;
    case Kind::reduce_scatter:
    case Kind::scatter:
      return rank == block;
    case Kind::all_reduce:
    case Kind::broadcast:
    case Kind::all_gather:
    case Kind::all_to_all:
    case Kind::barrier:
      return true;
  }
  return false;
}

InputBlock source_of(const Problem& problem, Rank rank, std::uint32_t block) {
  switch (problem.kind) {
    case Kind::broadcast:
    case Kind::scatter:
      return {problem.root, block};
    case Kind::all_to_all:
      return {block, rank};
    case Kind::all_gather:
    case Kind::gather:
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::reduce_scatter:
    case Kind::barrier:
      break;
  }
  return {block % problem.size, block};
}

std::string Resolved::place(std::uint32_t lane, std::uint32_t step) const {
  return fmt::format("rank {} lane {} step {}", lanes[lane].rank, lanes[lane].number, step);
}

std::string Resolved::place(std::uint32_t lane, std::uint32_t step, std::uint32_t window) const {
  return fmt::format("{} window {}", place(lane, step), window);
}

std::string Resolved::link_name(std::uint32_t link) const {
  const ResolvedLane& from = lanes[links[link].from_lane];
  return fmt::format("rank {} lane {} to rank {}", from.rank, from.number, links[link].to);
}

std::optional<Resolved> resolve(const Problem& problem, const Choice& choice,
                                const Schedule& schedule, Findings& findings) {
  const std::size_t n = problem.size;
  const std::size_t sizes = problem.kind == Kind::all_to_all ? n * n : n;
  const bool ragged = !problem.block_counts.empty();
  if (n == 0 || problem.root >= n || choice.slice_elems == 0 ||
      (ragged && problem.block_counts.size() != sizes) || !problem.output_counts.empty()) {
    findings.add(FindingKind::malformed,
                 "problem of {} ranks, root {}, {} block sizes and {} of the output alone, slices "
                 "of {} elements",
                 n, problem.root, problem.block_counts.size(), problem.output_counts.size(),
                 choice.slice_elems);
    return std::nullopt;
  }
  return Resolver(problem, choice, schedule, findings).run();
}

}  // namespace ccoll::detail
