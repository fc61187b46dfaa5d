// SPDX-License-Identifier: Apache-2.0
#include "dumps/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "core/text.hpp"

namespace ccoll::dump {
namespace {

/// Errors can be long; the full text is in the rank's output.
constexpr std::size_t kMostText = 400;

/// In ns: an operation under way for less may still be making progress.
constexpr std::int64_t kLong = 1'000'000'000;

/// One communicator's dumps, by rank.
using Group = std::map<std::uint32_t, const Dump*>;

std::string seconds_text(std::int64_t nanoseconds) {
  return fmt::format("{:.1f} s", static_cast<double>(std::max<std::int64_t>(nanoseconds, 0)) / 1e9);
}

/// Foreign text in one line.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  if (text.size() > kMostText) text = text.substr(0, kMostText) + "…";
  return text;
}

class Diagnosis {
 public:
  Diagnosis(const std::vector<Dump>& dumps, const std::vector<Process>& processes)
      : dumps_(dumps), processes_(processes) {}

  std::vector<std::string> lines() {
    tell_processes();
    const auto failed = first_to_fail();
    const auto group = failed.empty() ? longest_waiting() : failed;
    // If a process is gone, the missing calls of other ranks are no news.
    const bool gone = !lines_.empty();
    const bool mismatch = tell_mismatch(group);
    const bool cycle = !group.empty() && !mismatch && !gone && tell_cycle();
    const bool known = mismatch || cycle || (!gone && tell_late(group)) || tell_silent(group);
    if (!failed.empty())
      tell_failure(failed);
    else if (!known)
      tell_waiting(group);
    if (lines_.size() > kMostLines) lines_.resize(kMostLines);
    return std::move(lines_);
  }

 private:
  void say(std::string line) { lines_.push_back(one_line(std::move(line))); }

  void tell_processes() {
    for (const auto& process : processes_) {
      const auto who = fmt::format("rank {} (process {})", process.rank, process.process);
      if (process.stopped)
        say(fmt::format("{} is stopped, as by SIGSTOP: it neither computes nor answers", who));
      else if (process.end == Process::End::signal && !process.told)
        say(fmt::format("{} was killed by {}", who, process.with));
      else if (process.end == Process::End::status && !has_dump(process.rank) && !process.told)
        say(fmt::format("{} ended with status {}, and reported no failure", who, process.with));
    }
  }

  bool has_dump(std::uint32_t job_rank) const {
    return std::ranges::any_of(dumps_, [&](const Dump& d) { return d.job_rank == job_rank; });
  }

  /// The communicator that failed first; empty if none failed.
  Group first_to_fail() const {
    const Dump* first = nullptr;
    for (const auto& dump : dumps_)
      if (dump.failure && (first == nullptr || dump.at < first->at)) first = &dump;
    return first == nullptr ? Group{} : group_of(*first);
  }
  /// If nothing has failed: the communicator of the operation that has been under way longest, if
  /// any takes long.
  Group longest_waiting() const {
    const Dump* longest = nullptr;
    std::int64_t begun = 0;
    for (const auto& dump : dumps_)
      for (const auto& operation : dump.under_way)
        if (dump.at - operation.begun >= kLong && (longest == nullptr || operation.begun < begun)) {
          longest = &dump;
          begun = operation.begun;
        }
    return longest == nullptr ? Group{} : group_of(*longest);
  }
  Group group_of(const Dump& one) const {
    Group group;
    for (const auto& dump : dumps_)
      if (dump.job == one.job && dump.communicator == one.communicator) group[dump.rank] = &dump;
    return group;
  }

  static std::string place_of(const Dump& dump) {
    return fmt::format("rank {} on host {} (process {})", dump.rank, dump.host, dump.process);
  }
  static std::string in_communicator(const Dump& dump) {
    return dump.name == "world" ? "" : fmt::format(" in {}", dump.name);
  }

  bool tell_mismatch(const Group& group) {
    for (const auto& [rank, dump] : group) {
      if (!dump->failure || dump->failure->kind != "mismatch") continue;
      say(dump->failure->message);
      return true;
    }
    return false;
  }

  /// Ranks that have begun fewer calls than others, which cannot finish without them.
  bool tell_late(const Group& group) {
    std::map<std::uint64_t, std::vector<const Dump*>> late;  // by calls
    std::uint64_t most = 0;
    for (const auto& [rank, dump] : group) most = std::max(most, dump->calls);
    for (const auto& [rank, dump] : group)
      if (dump->calls < most) late[dump->calls].push_back(dump);
    bool told = false;
    for (const auto& [number, ranks] : late) {
      const auto* const call = call_with(group, number);
      // A rank that nobody waits for is not late: a broadcast's root may be calls ahead.
      const auto waiting = waiting_in(group, number);
      if (call == nullptr || waiting.empty()) continue;
      say(fmt::format("{} never entered {}{}; {}", places(ranks), call_text(*call),
                      in_communicator(*ranks.front()), waiting_text(group, waiting, ranks.size())));
      told = true;
    }
    return told;
  }

  static std::string places(const std::vector<const Dump*>& ranks) {
    if (ranks.size() == 1) return place_of(*ranks.front());
    std::vector<std::uint32_t> numbers;
    for (const auto* dump : ranks) numbers.push_back(dump->rank);
    return list_ranks(numbers);
  }

  static const Call* call_with(const Group& group, std::uint64_t number) {
    for (const auto& [rank, dump] : group)
      for (const auto& call : dump->last_calls)
        if (call.number == number) return &call;
    return nullptr;
  }

  /// A rank in that call, and its state.
  struct Waiting {
    const Dump* dump;
    const UnderWay* operation;
  };
  static std::vector<Waiting> waiting_in(const Group& group, std::uint64_t number) {
    std::vector<Waiting> waiting;
    for (const auto& [rank, dump] : group)
      for (const auto& operation : dump->under_way)
        if (operation.call == number) waiting.push_back({dump, &operation});
    return waiting;
  }

  /// "the other 7 have waited 12.3 s for it, in step 2 of lane 0"
  static std::string waiting_text(const Group& group, const std::vector<Waiting>& waiting,
                                  std::size_t missing) {
    std::int64_t longest = 0;
    const UnderWay* shown = waiting.front().operation;
    for (const auto& [dump, operation] : waiting) {
      longest = std::max(longest, dump->at - operation->begun);
      const bool waits_for_absent = std::ranges::any_of(operation->waits_for, [&](const Peer& p) {
        return std::ranges::none_of(waiting,
                                    [&](const Waiting& w) { return w.dump->rank == p.rank; });
      });
      if (waits_for_absent) shown = operation;
    }
    const bool all = waiting.size() + missing == group.begin()->second->size;
    const auto who = all && waiting.size() > 1 ? fmt::format("the other {} have", waiting.size())
                     : waiting.size() == 1 ? fmt::format("rank {} has", waiting.front().dump->rank)
                                           : fmt::format("{} others have", waiting.size());
    const auto where = shown->stand ? fmt::format(", in step {} of lane {}", shown->stand->step + 1,
                                                  shown->stand->lane)
                                    : "";
    return fmt::format("{} waited {} for {}{}", who, seconds_text(longest),
                       missing == 1 ? "it" : "them", where);
  }

  /// Ranks without a dump that others wait for: dead, stopped, or unable to write.
  bool tell_silent(const Group& group) {
    std::map<std::uint32_t, std::vector<Waiting>> silent;
    for (const auto& [rank, dump] : group)
      for (const auto& operation : dump->under_way)
        for (const auto& peer : operation.waits_for)
          if (!group.contains(peer.rank)) silent[peer.rank].push_back({dump, &operation});
    for (const auto& [rank, waiting] : silent) {
      const auto& operation = *waiting.front().operation;
      const auto peer = std::ranges::find(operation.waits_for, rank, &Peer::rank);
      const auto* call = operation.call ? call_with(group, *operation.call) : nullptr;
      // In a collective, ranks that wait for waiting ranks count, too.
      const auto& all = call != nullptr ? waiting_in(group, call->number) : waiting;
      const bool well = std::ranges::any_of(processes_, [&](const Process& each) {
        return each.process == peer->process && each.end == Process::End::well && !each.stopped &&
               !each.told;
      });
      say(fmt::format("rank {} ({}, process {}){} {}; in {}, {}", rank, peer->address,
                      peer->process, in_communicator(*waiting.front().dump),
                      well ? "has ended, with status 0" : "left no dump",
                      call != nullptr ? call_text(*call) : operation.text,
                      waiting_text(group, all, 1)));
    }
    return !silent.empty();
  }

  /// One rank of the job waits for another in some operation.
  struct Edge {
    std::uint32_t to;
    std::string where;
  };
  using Edges = std::map<std::uint32_t, std::vector<Edge>>;  // by rank of the job

  /// Ranks of the job that wait for each other, in one or several communicators. In a collective, a
  /// rank that waits for waiting ranks also waits for those that have not come.
  bool tell_cycle() {
    Edges edges;
    for (const auto& dump : dumps_) {
      const auto group = group_of(dump);
      for (const auto& operation : dump.under_way)
        for (const auto rank : missing_for(group, dump, operation))
          if (const auto other = group.find(rank); other != group.end())
            edges[dump.job_rank].push_back({other->second->job_rank, where_of(dump, operation)});
    }
    for (const auto& [start, ignored] : edges) {
      std::vector<std::uint32_t> path{start};
      std::set<std::uint32_t> seen{start};
      if (!closes(edges, path, seen)) continue;
      say_cycle(edges, path);
      return true;
    }
    return false;
  }

  static std::string where_of(const Dump& dump, const UnderWay& operation) {
    if (!operation.call) return operation.text + in_communicator(dump);
    const auto call = std::ranges::find(dump.last_calls, *operation.call, &Call::number);
    return (call == dump.last_calls.end() ? operation.text : call_text(*call)) +
           fmt::format(" of communicator {}", dump.name);
  }

  static std::vector<std::uint32_t> missing_for(const Group& group, const Dump& dump,
                                                const UnderWay& operation) {
    std::vector<std::uint32_t> ranks, missing;
    for (const auto& peer : operation.waits_for) ranks.push_back(peer.rank);
    if (!operation.call) return ranks;
    std::set<std::uint32_t> seen{dump.rank};
    while (!ranks.empty()) {
      const auto rank = ranks.back();
      ranks.pop_back();
      const auto found = group.find(rank);
      if (!seen.insert(rank).second || found == group.end()) continue;
      if (found->second->calls <= *operation.call) missing.push_back(rank);
      for (const auto& its : found->second->under_way)
        if (its.call == operation.call)
          for (const auto& peer : its.waits_for) ranks.push_back(peer.rank);
    }
    return missing;
  }

  void say_cycle(const Edges& edges, const std::vector<std::uint32_t>& path) {
    constexpr std::size_t kMostTold = 6;
    std::vector<std::string> names;
    for (const auto rank : path) names.push_back(std::to_string(rank));
    say(fmt::format("ranks wait for each other in a cycle: {} -> {}", joined(names, " -> "),
                    path.front()));
    for (std::size_t i = 0; i < path.size() && i < kMostTold; i++) {
      const auto& out = edges.at(path[i]);
      const auto edge = std::ranges::find(out, path[(i + 1) % path.size()], &Edge::to);
      say(fmt::format("  rank {} waits for rank {}: {}", path[i], edge->to, edge->where));
    }
  }

  /// Whether a chain of waits leads back to the path's first rank; the path is then that chain.
  static bool closes(const Edges& edges, std::vector<std::uint32_t>& path,
                     std::set<std::uint32_t>& seen) {
    const auto found = edges.find(path.back());
    if (found == edges.end()) return false;
    for (const auto& [next, where] : found->second) {
      if (next == path.front()) return true;
      if (!seen.insert(next).second) continue;
      path.push_back(next);
      if (closes(edges, path, seen)) return true;
      path.pop_back();
    }
    return false;
  }

  /// Reports on a job that hangs or is only slow.
  void tell_waiting(const Group& group) {
    for (const auto& [rank, dump] : group) {
      if (dump->under_way.empty()) {
        say(fmt::format("{} is in no call{}", place_of(*dump), in_communicator(*dump)));
        continue;
      }
      const auto& operation = dump->under_way.front();
      std::vector<std::uint32_t> awaited;
      for (const auto& peer : operation.waits_for) awaited.push_back(peer.rank);
      const auto nobody =
          operation.device.empty() ? "nobody" : "nobody but its GPU: " + operation.device;
      say(fmt::format("{} has been in {} for {}, and waits for {}", place_of(*dump),
                      where_of(*dump, operation), seconds_text(dump->at - operation.begun),
                      awaited.empty() ? nobody : list_ranks(awaited)));
    }
  }

  void tell_failure(const Group& group) {
    const Dump* first = nullptr;
    for (const auto& [rank, dump] : group)
      if (dump->failure && (first == nullptr || dump->at < first->at)) first = dump;
    if (first->failure->kind == "mismatch") return;
    say(fmt::format("the first failure, on rank {}: {}: {}", first->rank, first->failure->kind,
                    first->failure->message));
  }

  const std::vector<Dump>& dumps_;
  const std::vector<Process>& processes_;
  std::vector<std::string> lines_;
};

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); unit++) value /= 1024;
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string call_text(const Call& call) {
  std::vector<std::string> parts;
  if (!call.type.empty()) {
    auto what = fmt::format("{} {}", bytes_text(call.bytes), call.type);
    if (!call.op.empty()) what += " " + call.op;
    parts.push_back(std::move(what));
  }
  if (call.root) parts.push_back(fmt::format("root {}", *call.root));
  parts.push_back(call.algorithm);
  if (!call.label.empty()) parts.push_back(fmt::format("\"{}\"", call.label));
  return fmt::format("{} #{} ({})", call.kind, call.number, joined(parts));
}

std::vector<std::string> diagnose(const std::vector<Dump>& dumps,
                                  const std::vector<Process>& processes) {
  return Diagnosis(dumps, processes).lines();
}

}  // namespace ccoll::dump
