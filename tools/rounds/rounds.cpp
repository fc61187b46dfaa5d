// SPDX-License-Identifier: Apache-2.0
#include "rounds/rounds.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "verify/dataflow.hpp"

namespace ccoll {
namespace {

using detail::Resolved;
using detail::ResolvedStep;
using detail::StepSeen;

Place place_of(Buffer buffer) {
  switch (buffer) {
    case Buffer::input:
      return Place::input;
    case Buffer::output:
      return Place::output;
    case Buffer::scratch:
      break;
  }
  return Place::scratch;
}

/// The sort order of a rank's holdings.
std::tuple<Place, std::uint16_t, std::uint32_t> key_of(const Holding& holding) {
  return {holding.place, holding.lane, holding.block};
}

/// A message and when it is sent.
struct Sent {
  Message message;
  std::uint64_t depth = 0;
  std::uint32_t turn = 0;  ///< among the messages of equal depth that its lane sends
  std::size_t round = 0;   ///< from 1
};

/// The facts about a completed step that matter to others.
struct Ran {
  detail::StepRun at;
  std::uint64_t depth = 0;  ///< of its received messages
  std::vector<MessageBlock> result;
  std::vector<std::size_t> received;  ///< numbers of messages
  std::vector<std::size_t> sent;
};

class Builder {
 public:
  Builder(const Resolved& schedule, Rounds& out)
      : schedule_(schedule),
        out_(out),
        on_link_(schedule.links.size()),
        popped_(schedule.links.size()),
        last_sent_(schedule.lanes.size()) {
    add_inputs();
  }

  void see(const StepSeen& seen, const detail::Combinations& combinations) {
    const ResolvedStep& step = schedule_.step(seen.at.lane, seen.at.step);
    Ran& ran = ran_.emplace_back();
    ran.at = seen.at;
    ran.depth = seen.depth;
    if (seen.result.empty()) return;
    std::size_t next = 0;
    for (const detail::Segment& segment : schedule_.layout(step)) {
      const std::uint64_t elems = schedule_.elems_of(segment, seen.at.window);
      if (elems == 0) continue;
      const std::uint32_t content = content_of(seen.result[next++], combinations);
      ran.result.push_back({segment.block, segment.block, content, elems});
    }
    receive(step, ran);
    send(step, ran);
  }

  /// Called when all steps have been seen.
  void finish() {
    number_rounds();
    std::vector<std::size_t> times(schedule_.lanes.size());  ///< of each lane's last step
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> ended;
    for (const Ran& ran : ran_) {
      const ResolvedStep& step = schedule_.step(ran.at.lane, ran.at.step);
      std::size_t& time = times[ran.at.lane];
      if (step.after_lane != detail::kNone) {
        time = std::max(time, ended[{step.after_lane, step.after_step}]);
      }
      for (const std::size_t number : ran.received) time = std::max(time, sent_[number].round);
      const std::size_t sends = ran.sent.empty() ? time : sent_[ran.sent.front()].round;
      // Data that it stores without waiting is shown with its sends.
      const std::size_t stores =
          std::max<std::size_t>(ran.received.empty() ? sends : time, std::size_t{1});
      if (!ran.result.empty()) show(step, ran, stores, sends);
      time = std::max(time, sends);
      ended[{ran.at.lane, ran.at.step}] = time;
    }
    for (Sent& sent : sent_) {
      out_.rounds[sent.round - 1].messages.push_back(std::move(sent.message));
    }
    for (Round& round : out_.rounds) {
      std::ranges::stable_sort(round.messages, {}, [](const Message& message) {
        return std::tuple{message.from.rank, message.from.lane, message.to};
      });
    }
  }

 private:
  void add_inputs() {
    const Problem& problem = schedule_.problem;
    for (Rank rank = 0; rank < problem.size; ++rank) {
      for (std::uint32_t block = 0; block < schedule_.blocks; ++block) {
        const detail::Segment segment{Buffer::input, block,
                                      schedule_.sizes_of(rank, Buffer::input)};
        if (!detail::has_input(problem, rank, block) || schedule_.windows == 0 ||
            schedule_.elems_of(segment, 0) == 0) {
          continue;
        }
        const std::uint32_t own = leaf(rank, block);
        out_.inputs.push_back({rank, {Place::input, 0, block, own}});
      }
    }
  }

  std::uint32_t leaf(Rank rank, std::uint32_t block) {
    const auto [found, is_new] = numbers_.try_emplace({block, rank}, next_number());
    if (is_new) out_.contents.push_back({block, {{rank, 1}}, {}, false});
    return found->second;
  }

  std::uint32_t next_number() const { return static_cast<std::uint32_t>(out_.contents.size()); }

  std::uint32_t content_of(const detail::Value& value, const detail::Combinations& combinations) {
    if (value.expression == detail::kPoison || value.expression == detail::kUndefined) {
      return kSpoilt;
    }
    const std::uint32_t block = value.origin % schedule_.blocks;
    if (const auto found = numbers_.find({block, value.expression}); found != numbers_.end()) {
      return found->second;
    }
    if (value.expression < schedule_.problem.size) return leaf(value.expression, block);
    Content content;
    content.block = block;
    content.finished = combinations.finished(value.expression);
    for (const detail::Expression source : combinations.sources_of(value.expression)) {
      content.sources.push_back(content_of({source, value.origin}, combinations));
    }
    const std::vector<std::uint64_t> times = combinations.multiplicities(value.expression);
    for (Rank rank = 0; rank < times.size(); ++rank) {
      if (times[rank] != 0) content.shares.push_back({rank, times[rank]});
    }
    const std::uint32_t number = next_number();
    out_.contents.push_back(std::move(content));
    numbers_.emplace(std::pair{block, value.expression}, number);
    return number;
  }

  StepName name_of(const Ran& ran) const {
    const detail::ResolvedLane& lane = schedule_.lanes[ran.at.lane];
    return {lane.rank, lane.number, ran.at.step};
  }

  void receive(const ResolvedStep& step, Ran& ran) {
    const auto links = schedule_.links_of(step.receives);
    const bool reduces = links.size() > 1 || step.local.begin != step.local.end;
    for (const std::uint32_t link : links) {
      const std::size_t number = on_link_[link][popped_[link]++];
      Message& message = sent_[number].message;
      message.by = name_of(ran);
      message.received = true;
      message.reduces = reduces;
      for (std::size_t i = 0; i < std::min(message.pieces.size(), ran.result.size()); ++i) {
        message.pieces[i].to_block = ran.result[i].block;
      }
      ran.received.push_back(number);
    }
  }

  void send(const ResolvedStep& step, Ran& ran) {
    const auto links = schedule_.links_of(step.sends);
    if (links.empty()) return;
    const std::uint64_t depth = ran.depth + 1;
    auto& [last_depth, turn] = last_sent_[ran.at.lane];
    turn = last_depth == depth ? turn + 1 : 0;
    last_depth = depth;
    for (const std::uint32_t link : links) {
      Sent sent;
      sent.message.from = name_of(ran);
      sent.message.to = schedule_.links[link].to;
      sent.message.pieces = ran.result;
      sent.depth = depth;
      sent.turn = turn;
      on_link_[link].push_back(sent_.size());
      ran.sent.push_back(sent_.size());
      sent_.push_back(std::move(sent));
    }
  }

  void number_rounds() {
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> rounds;
    for (const Sent& sent : sent_) rounds.emplace(std::pair{sent.depth, sent.turn}, 0);
    for (auto& [when, number] : rounds) {
      out_.rounds.emplace_back().depth = when.first;
      number = out_.rounds.size();
    }
    for (Sent& sent : sent_) sent.round = rounds.at({sent.depth, sent.turn});
  }

  /// Shows a step's effect on its rank's memory.
  void show(const ResolvedStep& step, const Ran& ran, std::size_t stores, std::size_t sends) {
    // A single rank sends nothing, but its result must appear.
    if (out_.rounds.size() < stores) out_.rounds.resize(stores);
    const StepName name = name_of(ran);
    const auto change = [&](std::size_t round, Holding holding) {
      out_.rounds[round - 1].changes.push_back({name.rank, holding});
    };
    out_.rounds[stores - 1].steps.push_back(name);
    std::size_t next = 0;
    for (const detail::Segment& segment : schedule_.segments_of(step.store)) {
      if (schedule_.elems_of(segment, ran.at.window) == 0) continue;
      if (next == ran.result.size()) break;
      const std::uint16_t lane = segment.buffer == Buffer::scratch ? name.lane : std::uint16_t{0};
      change(stores, {place_of(segment.buffer), lane, segment.block, ran.result[next++].content});
    }
    if (ran.received.empty() || ran.sent.empty() || step.store.begin != step.store.end) return;
    for (const MessageBlock& piece : ran.result) {
      change(stores, {Place::passing, name.lane, piece.block, piece.content});
      change(sends, {Place::passing, name.lane, piece.block, kNothing});
    }
  }

  const Resolved& schedule_;
  Rounds& out_;
  std::map<std::pair<std::uint32_t, detail::Expression>, std::uint32_t> numbers_;
  std::vector<Sent> sent_;
  std::vector<Ran> ran_;
  std::vector<std::vector<std::size_t>> on_link_;                   ///< messages, in order
  std::vector<std::size_t> popped_;                                 ///< per link
  std::vector<std::pair<std::uint64_t, std::uint32_t>> last_sent_;  ///< depth and turn, by lane
};

Wait wait_of(const Resolved& schedule, const detail::Execution& execution, std::uint32_t number) {
  const detail::ResolvedLane& lane = schedule.lanes[number];
  const detail::LaneState& state = execution.lanes[number];
  Wait wait;
  wait.step = {lane.rank, lane.number, state.step};
  switch (state.waiting.what) {
    case detail::Waiting::For::slice:
      wait.peer = schedule.lanes[schedule.links[state.waiting.link].from_lane].rank;
      break;
    case detail::Waiting::For::room:
      wait.what = Wait::For::room;
      wait.peer = schedule.links[state.waiting.link].to;
      break;
    case detail::Waiting::For::after: {
      const ResolvedStep& step = schedule.step(number, state.step);
      wait.what = Wait::For::step;
      wait.peer = lane.rank;
      wait.after = step.after_step;
      wait.after_lane = schedule.lanes[step.after_lane].number;
      break;
    }
    case detail::Waiting::For::nothing:
      wait.what = Wait::For::nothing;
      break;
  }
  return wait;
}

void add_waits(const Resolved& schedule, const detail::Execution& execution, Rounds& out) {
  const detail::Deadlock deadlock = detail::find_deadlock(schedule, execution);
  out.is_cycle = deadlock.is_cycle;
  for (const std::uint32_t lane : deadlock.lanes) {
    out.waits.push_back(wait_of(schedule, execution, lane));
  }
}

/// Enough slots for all messages of a link in one call.
std::uint64_t enough_slots(const Resolved& schedule) {
  std::vector<std::uint64_t> pushed(schedule.links.size());
  for (const ResolvedStep& step : schedule.steps) {
    for (const std::uint32_t link : schedule.links_of(step.sends)) ++pushed[link];
  }
  return pushed.empty() ? 1 : std::max<std::uint64_t>(*std::ranges::max_element(pushed), 1);
}

}  // namespace

std::string_view to_string(Place place) {
  switch (place) {
    case Place::input:
      return "input";
    case Place::output:
      return "output";
    case Place::scratch:
      return "scratch";
    case Place::passing:
      return "passing";
  }
  return "unknown";
}

std::uint64_t Message::elems() const {
  return std::accumulate(
      pieces.begin(), pieces.end(), std::uint64_t{0},
      [](std::uint64_t sum, const MessageBlock& piece) { return sum + piece.elems; });
}

Choice one_window(const Problem& problem, Algorithm algorithm) {
  std::uint64_t most = std::max<std::uint64_t>(problem.count, 1);
  for (const std::uint64_t elems : problem.block_counts) most = std::max(most, elems);
  return {algorithm, 1, most};
}

Rounds rounds_of(const Problem& problem, const Schedule& schedule) {
  Rounds out;
  out.problem = problem;
  detail::Findings findings(VerifyOptions{}.max_findings);
  const auto resolved =
      detail::resolve(problem, one_window(problem, Algorithm::ring), schedule, findings);
  if (resolved) {
    out.blocks = resolved->blocks;
    const std::uint64_t slots = enough_slots(*resolved);
    const detail::Execution execution = detail::execute(*resolved, slots, 1);
    Builder builder(*resolved, out);
    Report report;
    detail::Findings unfinished(1);
    if (!execution.finished) {
      findings.add(FindingKind::deadlock, "deadlock: {}",
                   detail::describe_deadlock(*resolved, execution));
      add_waits(*resolved, execution, out);
    }
    // If steps never ran, incomplete outputs are no news.
    detail::check_dataflow(*resolved, execution, slots, execution.finished ? findings : unfinished,
                           report,
                           [&](const StepSeen& seen, const detail::Combinations& combinations) {
                             builder.see(seen, combinations);
                           });
    builder.finish();
  }
  out.findings = findings.take();
  return out;
}

bool has_result(const Problem& problem, Rank rank, std::uint32_t block) {
  return detail::has_output(problem, rank, block);
}

bool is_result(const Rounds& rounds, Rank rank, std::uint32_t block, std::uint32_t content) {
  const Problem& problem = rounds.problem;
  if (content >= rounds.contents.size() || !has_result(problem, rank, block)) return false;
  const Content& held = rounds.contents[content];
  const detail::InputBlock source = detail::source_of(problem, rank, block);
  if (held.block != source.block) return false;
  if (!reduces(problem.kind)) return held.shares == std::vector<Share>{{source.rank, 1}};
  return held.shares.size() == problem.size &&
         (problem.kind == Kind::barrier ||
          (held.finished &&
           std::ranges::all_of(held.shares, [](const Share& share) { return share.times == 1; })));
}

Board::Board(const Rounds& rounds)
    : rounds_(rounds), held_(rounds.problem.size), tallies_(rounds.problem.size) {
  for (const Change& change : rounds.inputs) apply(change);
}

bool Board::advance() {
  if (round_ == rounds_.rounds.size()) return false;
  const Round& round = rounds_.rounds[round_++];
  for (const Change& change : round.changes) apply(change);
  for (const Message& message : round.messages) {
    Tally& sender = tallies_[message.from.rank];
    ++sender.messages;
    sender.elems_sent += message.elems();
    if (message.reduces) tallies_[message.to].elems_reduced += message.elems();
  }
  return true;
}

std::uint32_t Board::content_at(Rank rank, Place place, std::uint32_t block) const {
  const std::vector<Holding>& held = held_[rank];
  auto at = std::ranges::lower_bound(held, std::tuple{place, std::uint16_t{0}, block}, {}, key_of);
  // The next ones are in further lanes.
  for (; at != held.end() && at->place == place; ++at) {
    if (at->block == block) return at->content;
    if (place == Place::input || place == Place::output) break;
  }
  return kNothing;
}

void Board::apply(const Change& change) {
  std::vector<Holding>& held = held_[change.rank];
  const auto found = std::ranges::lower_bound(held, key_of(change.holding), {}, key_of);
  const bool is_there = found != held.end() && key_of(*found) == key_of(change.holding);
  if (change.holding.content == kNothing) {
    if (is_there) held.erase(found);
  } else if (is_there) {
    found->content = change.holding.content;
  } else {
    held.insert(found, change.holding);
  }
}

}  // namespace ccoll
