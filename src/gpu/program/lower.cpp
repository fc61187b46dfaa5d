// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/lower.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "gpu/program/tiny_lowering.hpp"
#include "verify/resolve.hpp"

namespace ccoll::device {
namespace {

using detail::Resolved;
using detail::ResolvedLane;
using detail::ResolvedStep;
using detail::Segment;

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kTeamAlignment - 1) / kTeamAlignment * kTeamAlignment;
}

class Lowering {
 public:
  Lowering(const LowerRequest& request, const Resolved& schedule)
      : request_(request), schedule_(schedule), elem_bytes_(size_of(request.type)) {}

  Result<LoweredTeam> run() {
    measure();
    if (schedule_.windows == 0) return std::move(out_);
    place_scratch();
    number_blocks();
    out_.channels.resize(schedule_.links.size());
    pushes_.resize(schedule_.links.size());
    pops_.resize(schedule_.links.size());
    for (std::uint32_t lane = 0; lane < schedule_.lanes.size(); ++lane) {
      if (block_of_[lane] != kNone) add_block(lane);
    }
    CCOLL_TRY(pair_slices());
    place_channels();
    put_by_words(request_, out_);
    place_slots();
    finish();
    out_.copies = copies_of(request_.problem, request_.type, request_.devices);
    return std::move(out_);
  }

 private:
  static constexpr std::uint64_t kNoLimit = UINT64_MAX;

  /// A step's use of a link: the step's number, and that of its end.
  struct Use {
    std::uint32_t step;
    std::uint32_t end;
  };

  void measure() {
    std::uint64_t largest = 0;
    for (const std::uint64_t elems : schedule_.elems) largest = std::max(largest, elems);
    const std::uint64_t slice =
        std::min(request_.choice.slice_elems, std::max<std::uint64_t>(largest, 1));
    TeamProgram& program = out_.program;
    program.type = request_.type;
    program.op = request_.op;
    program.slice_bytes = slice * elem_bytes_;
    program.windows = largest / slice + (largest % slice != 0 ? 1 : 0);
    program.stripes = schedule_.stripes;
    program.slots = request_.slots;
    program.workspace = 2 * schedule_.problem.size;
    for (const std::uint32_t device : request_.devices)
      used_.resize(std::max<std::size_t>(used_.size(), device + 1));
    out_.in_place = !request_.in_place.empty();
    for (Rank rank = 0; rank < schedule_.problem.size; ++rank) {
      views_.push_back(view_of(schedule_.problem, rank));
      out_.in_place = out_.in_place && is_in_place(rank);
    }
  }

  void place_scratch() {
    for (const ResolvedLane& lane : schedule_.lanes) {
      std::uint64_t& used = used_[device_of(lane.rank)];
      scratch_.push_back(used);
      used += lane.scratch_blocks * aligned(out_.program.slice_bytes);
    }
  }

  /// A lane without steps, or without a window of its stripe, needs no block.
  void number_blocks() {
    std::uint32_t blocks = 0;
    for (const ResolvedLane& lane : schedule_.lanes) {
      const bool idle = lane.steps.begin == lane.steps.end || lane.stripe >= out_.program.windows;
      block_of_.push_back(idle ? kNone : blocks++);
    }
  }

  void add_block(std::uint32_t number) {
    const ResolvedLane& lane = schedule_.lanes[number];
    TeamBlock& block = out_.blocks.emplace_back();
    block.number = block_of_[number];
    block.device = device_of(lane.rank);
    block.rank = lane.rank;
    block.lane = lane.number;
    block.stripe = lane.stripe;
    block.steps.begin = size32(out_.steps);
    ends_.clear();
    for (std::uint32_t step = lane.steps.begin; step < lane.steps.end; ++step) {
      add_step(lane, schedule_.steps[step]);
    }
    block.steps.end = size32(out_.steps);
    block.ends = size32(ends_);
    const std::uint64_t stripes = out_.program.stripes;
    const std::uint64_t rounds = (out_.program.windows - lane.stripe + stripes - 1) / stripes;
    const std::uint64_t runs = rounds * (lane.steps.end - lane.steps.begin);
    out_.program.span = std::max(out_.program.span, runs);
    out_.program.most_ends = std::max(out_.program.most_ends, block.ends);
  }

  void add_step(const ResolvedLane& lane, const ResolvedStep& from) {
    const std::uint32_t number = size32(out_.steps);
    TeamStep step;
    step.windows = windows_of(from);
    step.local = add_parts(lane, schedule_.segments_of(from.local));
    step.store = add_parts(lane, schedule_.segments_of(from.store));
    step.receives = add_ends(number, schedule_.links_of(from.receives), pops_);
    step.sends = add_ends(number, schedule_.links_of(from.sends), pushes_);
    step.own_place = from.own_place;
    if (from.after_lane != detail::kNone) {
      const detail::Range others = schedule_.lanes[from.after_lane].steps;
      step.after = block_of_[from.after_lane];
      step.after_step = from.after_step;
      step.after_steps = others.end - others.begin;
    }
    if (from.finish && request_.op == ReduceOp::avg) step.divisor = schedule_.problem.size;
    const bool has_local = step.local.begin != step.local.end;
    const std::size_t sources = schedule_.links_of(from.receives).size() + (has_local ? 1 : 0);
    step.lends = request_.lends && (from.lend == Lend::always ||
                                    (from.lend == Lend::if_separate && !is_in_place(lane.rank)));
    lends_.push_back(from.lend);
    const auto cursors = sources + 1 + schedule_.links_of(from.sends).size();
    out_.program.widest = std::max(out_.program.widest, static_cast<std::uint32_t>(cursors));
    out_.steps.push_back(step);
  }

  std::uint64_t windows_of(const ResolvedStep& step) const {
    std::uint64_t most = 0;
    for (const Segment& segment : schedule_.layout(step)) {
      most = std::max(most, schedule_.elems_of(segment, 0) * elem_bytes_);
    }
    const std::uint64_t slice = out_.program.slice_bytes;
    return most / slice + (most % slice != 0 ? 1 : 0);
  }

  Range add_parts(const ResolvedLane& lane, std::span<const Segment> segments) {
    Range range{size32(out_.parts), 0};
    for (const Segment& segment : segments) out_.parts.push_back(part_of(lane, segment));
    range.end = size32(out_.parts);
    return range;
  }

  TeamPart part_of(const ResolvedLane& lane, const Segment& segment) const {
    TeamPart part;
    part.bytes = schedule_.elems_of(segment, 0) * elem_bytes_;
    if (segment.buffer == Buffer::scratch) {
      const std::uint32_t blocks = schedule_.blocks;
      const std::uint64_t cell = (segment.block + blocks - lane.scratch_block) % blocks;
      const auto number = static_cast<std::size_t>(&lane - schedule_.lanes.data());
      part.buffer = out_.program.workspace + device_of(lane.rank);
      part.offset = scratch_[number] + cell * aligned(out_.program.slice_bytes);
      part.moves = false;
      return part;
    }
    part.buffer = 2 * lane.rank + (segment.buffer == Buffer::output ? 1 : 0);
    if (!holds_own_block_only(schedule_.problem.kind, segment.buffer)) {
      part.offset = elem_bytes_ * block_offset(views_[lane.rank], schedule_.blocks, segment.block,
                                               segment.buffer);
    }
    return part;
  }

  /// `uses`: by link, the steps that push to it, or pop from it.
  Range add_ends(std::uint32_t step, std::span<const std::uint32_t> links,
                 std::vector<std::vector<Use>>& uses) {
    Range range{size32(out_.ends), 0};
    for (const std::uint32_t link : links) {
      auto known = std::ranges::find(ends_, link);
      if (known == ends_.end()) known = ends_.insert(known, link);
      uses[link].push_back({step, size32(out_.ends)});
      TeamEnd& end = out_.ends.emplace_back();
      end.channel = link;
      end.number = static_cast<std::uint32_t>(known - ends_.begin());
    }
    range.end = size32(out_.ends);
    return range;
  }

  std::uint32_t device_of(Rank rank) const {
    return request_.devices.empty() ? 0 : request_.devices[rank];
  }

  bool is_in_place(Rank rank) const {
    return rank < request_.in_place.size() && request_.in_place[rank];
  }

  /// The k-th step that pops from a link takes the k-th slice of a window. So the place of a lent
  /// slice is known beforehand.
  Status pair_slices() {
    for (std::uint32_t link = 0; link < schedule_.links.size(); ++link) {
      const std::vector<Use>&pushes = pushes_[link], &pops = pops_[link];
      bool paired = pushes.size() == pops.size();
      for (std::size_t i = 0; paired && i < pushes.size(); ++i) {
        paired = pair(link, pushes[i], pops[i]);
      }
      if (paired) continue;
      return fail(ErrorKind::internal,
                  "{}: what is sent and what is received differ; the verifier refuses such a "
                  "schedule",
                  schedule_.link_name(link));
    }
    return {};
  }

  bool pair(std::uint32_t link, const Use& from, const Use& to) {
    const TeamStep &push = out_.steps[from.step], &pop = out_.steps[to.step];
    const std::uint64_t bytes = bytes_of(push, kNoLimit);
    if (push.windows != pop.windows || bytes != bytes_of(pop, kNoLimit)) return false;
    const bool stores = push.store.begin != push.store.end;
    const Range lent = stores ? push.store : push.local;
    const bool is_there = stores || push.receives.begin == push.receives.end;
    if (lends_[from.step] != Lend::never && is_there && is_of_one_buffer(lent)) {
      const bool if_separate = lends_[from.step] == Lend::if_separate;
      const std::uint32_t buffer = out_.parts[lent.begin].buffer;
      out_.ends[from.end].loan = out_.ends[to.end].loan = {lent, buffer, if_separate};
    }
    if (push.lends) {
      out_.ends[to.end].lent = lent;
      return true;
    }
    TeamChannel& channel = out_.channels[link];
    const std::uint64_t slice = bytes_of(push, out_.program.slice_bytes);
    channel.slot_bytes = std::max(channel.slot_bytes, aligned(slice));
    return true;
  }

  bool is_of_one_buffer(Range parts) const {
    const auto all = std::span(out_.parts).subspan(parts.begin, parts.size());
    return !all.empty() && std::ranges::all_of(all, [&](const TeamPart& part) {
      return part.buffer == all.front().buffer;
    });
  }

  /// The bytes of the step's result, with at most `most` of each part.
  std::uint64_t bytes_of(const TeamStep& step, std::uint64_t most) const {
    const Range layout = step.local.begin != step.local.end ? step.local : step.store;
    std::uint64_t bytes = 0;
    for (std::uint32_t i = layout.begin; i < layout.end; ++i) {
      bytes += std::min(out_.parts[i].bytes, most);
    }
    return bytes;
  }

  void place_channels() {
    for (std::uint32_t link = 0; link < out_.channels.size(); ++link) {
      TeamChannel& channel = out_.channels[link];
      channel.from = device_of(schedule_.lanes[schedule_.links[link].from_lane].rank);
      channel.to = device_of(schedule_.links[link].to);
    }
  }

  void place_slots() {
    for (TeamChannel& channel : out_.channels) {
      channel.slots = used_[channel.to];
      used_[channel.to] += request_.slots * channel.slot_bytes;
    }
    out_.workspace_bytes = *std::ranges::max_element(used_);
  }

  void finish() {
    const auto in_one_part = [](Range range) { return range.end - range.begin <= 1; };
    for (TeamStep& step : out_.steps) {
      step.whole = in_one_part(step.local) && in_one_part(step.store);
      for (std::uint32_t i = step.receives.begin; i < step.receives.end; ++i) {
        const TeamEnd& end = out_.ends[i];
        step.whole = step.whole && in_one_part(end.lent) && in_one_part(end.loan.parts);
      }
      if (step.after != kNone) out_.blocks[step.after].awaited = true;
    }
    out_.program.block_count = size32(out_.blocks);
    out_.program.channel_count = size32(out_.channels);
  }

  template <typename T>
  static std::uint32_t size32(const std::vector<T>& list) {
    return static_cast<std::uint32_t>(list.size());
  }

  const LowerRequest& request_;
  const Resolved& schedule_;
  const std::uint64_t elem_bytes_;
  LoweredTeam out_;
  std::vector<Problem> views_;           ///< by rank
  std::vector<std::uint64_t> used_{0};   ///< by device: bytes of its workspace
  std::vector<std::uint64_t> scratch_;   ///< by lane: where its scratch begins in the workspace
  std::vector<std::uint32_t> block_of_;  ///< by lane
  std::vector<std::uint32_t> ends_;      ///< links of the present block
  std::vector<Lend> lends_;              ///< by step
  std::vector<std::vector<Use>> pushes_, pops_;  ///< by link
};

}  // namespace

TeamProgram LoweredTeam::on_host() const {
  TeamProgram here = program;
  here.blocks = blocks.data();
  here.steps = steps.data();
  here.ends = ends.data();
  here.parts = parts.data();
  here.channels = channels.data();
  return here;
}

std::vector<TeamBlock> LoweredTeam::blocks_of(std::uint32_t device) const {
  std::vector<TeamBlock> own;
  for (const TeamBlock& block : blocks)
    if (block.device == device) own.push_back(block);
  if (!own.empty() || blocks.empty()) return own;
  TeamBlock idle;
  idle.stripe = kNone;  // a stripe that has no window
  idle.number = static_cast<std::uint32_t>(blocks.size()) + device;
  idle.device = device;
  return {idle};
}

bool LoweredTeam::reads_across() const {
  return std::ranges::any_of(ends, [this](const TeamEnd& end) {
    const TeamChannel& channel = channels[end.channel];
    const auto lent = std::span(parts).subspan(end.lent.begin, end.lent.end - end.lent.begin);
    return channel.from != channel.to && std::ranges::any_of(lent, [this](const TeamPart& part) {
             return part.buffer < program.workspace;
           });
  });
}

Result<LoweredTeam> lower(const LowerRequest& request) {
  const auto& [problem, choice, schedule, type, op, in_place, slots, lends, devices, tiny_bytes] =
      request;
  if (slots == 0 || (!in_place.empty() && in_place.size() != problem.size)) {
    return fail(ErrorKind::invalid_argument,
                "a team of {} ranks has {} slots per link, and in-place flags of {} ranks: "
                "expected at least 1 slot, and flags of all ranks or none",
                problem.size, slots, in_place.size());
  }
  if (problem.size > kMostTeamRanks) {
    return fail(ErrorKind::unsupported, "a team of {} ranks: expected at most {}", problem.size,
                kMostTeamRanks);
  }
  if (!devices.empty() &&
      (devices.size() != problem.size || std::ranges::max(devices) >= kMostTeamDevices)) {
    return fail(ErrorKind::unsupported,
                "a team of {} ranks has the GPUs of {} ranks, numbered up to {}: expected the GPUs "
                "of all ranks, and at most {} GPUs",
                problem.size, devices.size(), std::ranges::max(devices), kMostTeamDevices);
  }
  if (reduces(problem.kind) && !is_defined(op, type)) {
    return fail(ErrorKind::invalid_argument, "{} is not defined on {}", to_string(op),
                to_string(type));
  }
  // The kernel counts windows: in the resolved schedule each block is one slice.
  const Choice whole{choice.algorithm, choice.lanes, UINT64_MAX};
  detail::Findings findings(1);
  if (choice.slice_elems == 0) findings.add(FindingKind::malformed, "slices of 0 elements");
  const auto resolved = detail::resolve(problem, whole, schedule, findings);
  if (!findings.empty() || !resolved) {
    const auto found = findings.take();
    return fail(ErrorKind::internal, "no schedule for a team: {}",
                found.empty() ? "it has no form" : found.front().message);
  }
  return Lowering(request, *resolved).run();
}

}  // namespace ccoll::device
