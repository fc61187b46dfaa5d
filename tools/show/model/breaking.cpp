// SPDX-License-Identifier: Apache-2.0
#include "show/model/breaking.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/text.hpp"
#include "rounds/rounds.hpp"
#include "show/text/explain.hpp"
#include "verify/verify.hpp"

namespace ccoll::show {

namespace {

struct Way {
  std::string_view name;
  std::string_view meaning;
};

constexpr std::array kWays = {
    Way{"drop", "a message is never sent"},
    Way{"duplicate", "a message is sent twice"},
    Way{"reorder", "two steps of a lane change places"},
    Way{"wait", "every rank receives before it sends"},
    Way{"tutorial", "the ring all_reduce that a tutorial teaches"},
};

using Programs = std::vector<Program>;

Programs programs_of(const Call& call) {
  Programs programs;
  for (Rank rank = 0; rank < call.problem.size; ++rank) {
    programs.push_back(
        make_program(call.problem, one_window(call.problem, call.entry->algorithm), rank));
  }
  return programs;
}

bool is_right(const Call& call, const Programs& programs) {
  return verify(call.problem, one_window(call.problem, Algorithm::ring),
                [&](Rank rank) { return programs[rank]; })
      .ok();
}

/// Each change returns its description, or nothing if the lane has no such place.
using Change = std::optional<std::string> (*)(Lane& lane, std::size_t step, Rank rank,
                                              std::size_t number);

std::optional<std::string> drop(Lane& lane, std::size_t step, Rank rank, std::size_t number) {
  if (lane.steps[step].sends.empty()) return std::nullopt;
  lane.steps[step].sends.clear();
  lane.steps[step].lend = Lend::never;
  return fmt::format("rank {} does not send what step {} of its lane {} has made", rank, step,
                     number);
}

std::optional<std::string> duplicate(Lane& lane, std::size_t step, Rank rank, std::size_t number) {
  const Step& sender = lane.steps[step];
  // Data that is sent again but not received again must still be stored somewhere.
  const std::vector<Operand>& source = sender.store.empty() ? sender.local : sender.store;
  const bool is_kept = !sender.store.empty() || sender.receives.empty();
  if (sender.sends.empty() || source.empty() || !is_kept) return std::nullopt;
  Step again;
  again.local = source;
  again.sends = sender.sends;
  lane.steps.insert(lane.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1, again);
  return fmt::format("rank {} sends twice what step {} of its lane {} has made", rank, step,
                     number);
}

std::optional<std::string> reorder(Lane& lane, std::size_t step, Rank rank, std::size_t number) {
  if (step + 1 >= lane.steps.size()) return std::nullopt;
  std::swap(lane.steps[step], lane.steps[step + 1]);
  return fmt::format("steps {} and {} of rank {}'s lane {} have changed places", step, step + 1,
                     rank, number);
}

struct NamedChange {
  std::string_view name;
  Change change;
};

constexpr std::array kChanges = {
    NamedChange{"drop", drop},
    NamedChange{"duplicate", duplicate},
    NamedChange{"reorder", reorder},
};

/// A browser breaks lines itself.
constexpr std::size_t kFaultWidth = 10'000;

void add_faults(const Call& call, const Programs& right, const StepName& at,
                std::vector<Fault>& faults) {
  for (const NamedChange& each : kChanges) {
    Programs programs = right;
    auto what = each.change(programs[at.rank].lanes[at.lane], at.step, at.rank, at.lane);
    if (!what) continue;
    const Picture picture = picture_of(call, std::move(programs));
    faults.push_back(
        {at, each.name, std::move(*what), picture.report.ok(), explanation(picture, kFaultWidth)});
  }
}

Result<Broken> changed(const Call& call, Change change, std::string_view how) {
  const Programs right = programs_of(call);
  for (Rank i = 0; i < right.size(); ++i) {
    const Rank rank = (i + 1) % static_cast<Rank>(right.size());
    for (std::size_t lane = 0; lane < right[rank].lanes.size(); ++lane) {
      for (std::size_t step = 0; step < right[rank].lanes[lane].steps.size(); ++step) {
        Programs programs = right;
        auto what = change(programs[rank].lanes[lane], step, rank, lane);
        if (!what || is_right(call, programs)) continue;
        return Broken{std::move(programs), std::move(*what)};
      }
    }
  }
  return fail(ErrorKind::invalid_argument,
              "--break {}: nothing of that kind makes {} wrong; expected another of {}", how,
              call_text(call), "drop, duplicate, reorder, wait");
}

/// In each lane, moves the first step that receives before the first that sends.
Result<Broken> waiting(const Call& call) {
  Programs programs = programs_of(call);
  const auto sends = [](const Step& step) { return !step.sends.empty(); };
  const auto receives = [](const Step& step) { return !step.receives.empty(); };
  for (Program& program : programs) {
    for (Lane& lane : program.lanes) {
      const auto sender = std::ranges::find_if(lane.steps, sends);
      const auto receiver = std::ranges::find_if(lane.steps, receives);
      if (sender < receiver && receiver != lane.steps.end()) {
        std::rotate(sender, receiver, receiver + 1);
      }
    }
  }
  if (!is_right(call, programs)) {
    return Broken{std::move(programs), "every rank receives before it sends"};
  }
  return fail(ErrorKind::invalid_argument,
              "--break wait: {} has no lane that sends first and receives later; expected a ring, "
              "or another way to break it",
              call_text(call));
}

Result<Broken> tutorial(const Call& call) {
  if (call.problem.kind != Kind::all_reduce || call.problem.size < 3) {
    return fail(ErrorKind::invalid_argument,
                "--break tutorial: {} ranks of {}; expected an all_reduce of 3 ranks or more",
                call.problem.size, to_string(call.problem.kind));
  }
  return Broken{tutorial_ring(call.problem),
                "a tutorial's ring: in its second pass step i sends block rank+1+i and keeps what "
                "comes as block rank+2+i, where block rank+1-i must be sent and rank-i kept; rank "
                "0 sends first and the others receive first"};
}

Operand output(Rank block) { return {Buffer::output, block, 1}; }

/// One exchange of the tutorial: its calls block, and rank 0 sends first.
void add_exchange(Lane& lane, Rank rank, Rank size, Step receive, Rank block_sent) {
  receive.receives = {{(rank + size - 1) % size, 0}};
  Step send;
  send.local = {output(block_sent)};
  send.sends = {(rank + 1) % size};
  if (rank == 0) {
    lane.steps.push_back(std::move(send));
    lane.steps.push_back(std::move(receive));
  } else {
    lane.steps.push_back(std::move(receive));
    lane.steps.push_back(std::move(send));
  }
}

}  // namespace

void add_break_option(CLI::App& app, std::string& how) {
  std::string text = "make it wrong, and see what the verifier says:";
  std::vector<std::string_view> names;
  for (const Way& way : kWays) {
    text += fmt::format(" {}: {};", way.name, way.meaning);
    names.push_back(way.name);
  }
  text.pop_back();
  // The error for a missing value lists the choices.
  app.add_option("--break", how, text)->type_name(joined(names, "|"));
}

Result<Broken> broken(const Call& call, std::string_view how) {
  for (const NamedChange& each : kChanges) {
    if (how == each.name) return changed(call, each.change, how);
  }
  if (how == "wait") return waiting(call);
  if (how == "tutorial") return tutorial(call);
  std::vector<std::string_view> names;
  for (const Way& way : kWays) names.push_back(way.name);
  return fail(ErrorKind::invalid_argument, "{}", unknown_word("way to break", how, names));
}

std::vector<Fault> faults_of(const Call& call, std::size_t most_steps) {
  const Programs right = programs_of(call);
  std::vector<Fault> faults;
  StepName at;
  for (at.rank = 0; at.rank < right.size(); ++at.rank) {
    const std::vector<Lane>& lanes = right[at.rank].lanes;
    for (at.lane = 0; at.lane < lanes.size(); ++at.lane) {
      for (at.step = 0; at.step < lanes[at.lane].steps.size(); ++at.step) {
        if (lanes[at.lane].steps[at.step].sends.empty()) continue;
        if (most_steps-- == 0) return faults;
        add_faults(call, right, at, faults);
      }
    }
  }
  return faults;
}

Picture picture_of(const Call& call, Broken broken) {
  Picture picture = picture_of(call, std::move(broken.programs));
  picture.broken = std::move(broken.what);
  return picture;
}

std::vector<Program> tutorial_ring(const Problem& problem) {
  const Rank n = problem.size;
  Programs programs;
  for (Rank rank = 0; rank < n; ++rank) {
    Program& program = programs.emplace_back(Program{rank, n, n, 1, {}});
    Lane& lane = program.lanes.emplace_back();
    // It works in place, on a copy of the input.
    Step copy;
    copy.local = {{Buffer::input, 0, n}};
    copy.store = {{Buffer::output, 0, n}};
    lane.steps.push_back(std::move(copy));
    for (Rank i = 0; i + 1 < n; ++i) {
      const Rank added = (rank + 2 * n - i - 1) % n;
      Step receive;
      receive.local = {output(added)};
      receive.store = {output(added)};
      receive.finish = i + 2 == n;
      add_exchange(lane, rank, n, std::move(receive), (rank + n - i) % n);
    }
    for (Rank i = 0; i + 1 < n; ++i) {
      Step receive;
      receive.store = {output((rank + 2 + i) % n)};
      add_exchange(lane, rank, n, std::move(receive), (rank + 1 + i) % n);
    }
  }
  return programs;
}

}  // namespace ccoll::show
