// SPDX-License-Identifier: Apache-2.0
#include "show/text/trace_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/command/columns.hpp"
#include "bench/command/sizes.hpp"
#include "core/text.hpp"
#include "schedule/text.hpp"
#include "show/model/study.hpp"

namespace ccoll::show {

namespace {

constexpr std::size_t kMostKinds = 20;
constexpr std::size_t kMostWaits = 12;
constexpr std::size_t kMostSlow = 5;
/// Pieces of a critical path that are shown at its beginning and at its end.
constexpr std::size_t kMostPiecesAtEachEnd = 24;

/// The joint record of one call by all ranks, without its steps.
struct Span {
  std::uint64_t sequence = 0;
  std::uint64_t begin = UINT64_MAX;
  std::uint64_t end = 0;
  std::tuple<std::string, std::string, std::uint64_t> what;  ///< operation, algorithm, bytes
  std::uint64_t ns() const { return end - begin; }
};

using Waits = std::map<std::pair<Rank, Rank>, std::uint64_t>;

/// The calls that have ended on every rank that began them.
std::vector<Span> spans_of(const TracedGroup& group, Waits& waits, std::size_t& unended) {
  std::map<std::uint64_t, Span> spans;
  std::map<std::uint64_t, bool> ended;
  for (Rank rank = 0; rank < group.size; ++rank) {
    if (!group.ranks[rank]) continue;
    for (const trace::CallRun& run : group.ranks[rank]->calls) {
      const trace::Planned& planned = group.ranks[rank]->plans[run.plan];
      Span& span = spans[run.sequence];
      span.sequence = run.sequence;
      span.begin = std::min(span.begin, run.begin);
      span.end = std::max(span.end, run.end.value_or(run.begin));
      span.what = {operation_text(run.signature), std::string(to_string(planned.choice.algorithm)),
                   bytes_of(run.signature, planned)};
      ended.try_emplace(run.sequence, true).first->second &= run.end.has_value();
      for (const trace::Wait& wait : trace::waits_of(rank, run)) {
        waits[{rank, wait.peer}] += wait.ns;
      }
    }
  }
  std::vector<Span> result;
  for (auto& [sequence, span] : spans) {
    if (ended[sequence]) result.push_back(std::move(span));
  }
  unended = spans.size() - result.size();
  return result;
}

std::string kinds_table(const std::vector<Span>& spans, std::size_t width) {
  std::map<decltype(Span::what), std::vector<const Span*>> kinds;
  for (const Span& span : spans) kinds[span.what].push_back(&span);
  using Row = std::pair<std::uint64_t, std::vector<std::string>>;
  std::vector<Row> rows;
  for (auto& [what, calls] : kinds) {
    std::ranges::sort(calls, {}, [](const Span* span) { return span->ns(); });
    std::uint64_t total = 0;
    for (const Span* span : calls) total += span->ns();
    const auto& [operation, algorithm, bytes] = what;
    rows.emplace_back(
        total, std::vector<std::string>{
                   operation, algorithm, bench::short_size(bytes), fmt::format("{}", calls.size()),
                   span_text(calls[calls.size() / 2]->ns()), span_text(calls.back()->ns()),
                   fmt::format("call {}", calls.back()->sequence)});
  }
  std::ranges::stable_sort(rows, std::greater(), &Row::first);
  using Align = bench::TextTable::Align;
  bench::TextTable table({{"operation", Align::left},
                          {"by", Align::left},
                          {"bytes"},
                          {"calls"},
                          {"median"},
                          {"longest"},
                          {"which", Align::left}});
  for (std::size_t i = 0; i < std::min(rows.size(), kMostKinds); ++i)
    table.add(std::move(rows[i].second));
  std::string text = table.text(width);
  if (rows.size() > kMostKinds) {
    text += fmt::format("  and {} kinds more, which took less time\n", rows.size() - kMostKinds);
  }
  return text;
}

std::string slowest_text(std::vector<Span> spans, std::size_t width) {
  std::ranges::stable_sort(spans, std::greater(), &Span::ns);
  std::vector<std::string> calls;
  for (std::size_t i = 0; i < std::min(spans.size(), kMostSlow); ++i) {
    calls.push_back(fmt::format("{} ({})", spans[i].sequence, span_text(spans[i].ns())));
  }
  return bench::wrapped_beside("  ", fmt::format("The slowest calls: {}", joined(calls)), width);
}

std::string waits_text(const Waits& waits) {
  std::vector<std::pair<std::uint64_t, std::pair<Rank, Rank>>> longest;
  for (const auto& [who, ns] : waits) longest.emplace_back(ns, who);
  std::ranges::stable_sort(longest, std::greater(), [](const auto& each) { return each.first; });
  if (longest.empty()) return {};
  std::string text = "  Who waited for whom, in all calls together:\n";
  for (std::size_t i = 0; i < std::min(longest.size(), kMostWaits); ++i) {
    text += fmt::format("    rank {} for rank {}: {}\n", longest[i].second.first,
                        longest[i].second.second, span_text(longest[i].first));
  }
  if (longest.size() > kMostWaits) {
    text += fmt::format("    and {} pairs more\n", longest.size() - kMostWaits);
  }
  return text;
}

std::string messages_text(const TracedGroup& group, std::size_t width) {
  std::uint64_t sends = 0, receives = 0, bytes = 0, longest = 0;
  for (const auto& trace : group.ranks) {
    if (!trace) continue;
    for (const trace::MessageRun& message : trace->messages) {
      ++(message.is_send ? sends : receives);
      if (message.is_send) bytes += message.bytes;
      longest = std::max(longest, message.end - message.begin);
    }
  }
  if (sends + receives == 0) return {};
  return bench::wrapped(
      fmt::format("{} sends of {} bytes in all and {} receives, the longest of {}", sends, bytes,
                  receives, span_text(longest)),
      width, "  ");
}

std::string group_text(const TracedGroup& group, std::size_t width) {
  Waits waits;
  std::size_t unended = 0;
  const std::vector<Span> spans = spans_of(group, waits, unended);
  const std::size_t calls = spans.size() + unended;
  std::string text =
      "\n" + bench::wrapped(
                 fmt::format("communicator {} ({:x}), {} rank{}: {} call{}", group.name, group.id,
                             group.size, group.size == 1 ? "" : "s", calls, calls == 1 ? "" : "s"),
                 width);
  if (!spans.empty()) text += kinds_table(spans, width) + slowest_text(spans, width);
  if (unended > 0) {
    text += bench::wrapped(
        fmt::format("calls without an end on some rank (they failed, or its file ends before): {}",
                    unended),
        width, "  ");
  }
  return text + waits_text(waits) + messages_text(group, width);
}

/// "rank 3 5.1 ms, rank 1 room 2 us".
std::string rank_waits(Rank rank, const trace::CallRun& run) {
  std::vector<std::string> waits;
  for (const trace::Wait& wait : trace::waits_of(rank, run)) {
    waits.push_back(fmt::format("rank {}{} {}", wait.peer,
                                wait.what == Awaited::room ? " to take" : "", span_text(wait.ns)));
  }
  return waits.empty() ? "nobody" : joined(waits);
}

std::string ranks_table(const TracedCall& call, std::size_t width) {
  bench::TextTable table({{"rank"},
                          {"began at"},
                          {"ended at"},
                          {"steps"},
                          {"waited for", bench::TextTable::Align::left}});
  for (Rank rank = 0; rank < call.whole.ranks.size(); ++rank) {
    const auto& run = call.whole.ranks[rank];
    if (!run) {
      table.add({fmt::format("{}", rank), "-", "-", "-", "no record of it"});
      continue;
    }
    table.add({fmt::format("{}", rank), span_text(run->begin - call.begin),
               run->end ? span_text(*run->end - call.begin) : "never",
               fmt::format("{}", run->steps.size()), rank_waits(rank, *run)});
  }
  return table.text(width);
}

std::string lateness_text(const TracedCall& call, std::size_t width) {
  Rank last = 0, first = 0;
  const auto begin_of = [&](Rank rank) { return call.whole.ranks[rank]->begin; };
  bool any = false;
  for (Rank rank = 0; rank < call.whole.ranks.size(); ++rank) {
    if (!call.whole.ranks[rank]) continue;
    if (!any || begin_of(rank) > begin_of(last)) last = rank;
    if (!any || begin_of(rank) < begin_of(first)) first = rank;
    any = true;
  }
  return bench::wrapped(fmt::format("Rank {} was the first to call, rank {} the last, {} later.",
                                    first, last, span_text(begin_of(last) - begin_of(first))),
                        width);
}

std::vector<std::string> piece_row(const TracedCall& call, const trace::PathPiece& piece,
                                   Rank before) {
  const auto& run = call.whole.ranks[piece.step.rank]->steps[piece.step.index];
  Step step = call.whole.programs[piece.step.rank].lanes[run.lane].steps[run.step];
  step.lend = Lend::never;  // not shown here
  return {span_text(piece.begin - call.begin),
          fmt::format("{}", piece.step.rank),
          fmt::format("{}", run.lane),
          fmt::format("{}", run.step),
          fmt::format("{}", run.window),
          span_text(piece.moved - piece.begin),
          span_text(piece.end - piece.moved),
          fmt::format("{}; {}", to_string(step, run.lane), cause_text(piece, before))};
}

std::string path_text(const TracedCall& call, std::size_t width) {
  const auto passings = trace::passings_of(call.whole);
  const auto path = trace::critical_path(call.whole, passings);
  if (path.empty()) return "No rank has recorded a step of it.\n";
  std::map<Rank, std::uint64_t> by_rank;
  for (const auto& piece : path) by_rank[piece.step.rank] += piece.end - piece.begin;
  std::string text =
      "\n" +
      bench::wrapped(fmt::format("The critical path: what kept the last step to end from ending "
                                 "earlier, {} pieces from rank {}'s beginning to rank {}'s end.",
                                 path.size(), path.front().step.rank, path.back().step.rank),
                     width);
  bench::TextTable table({{"at"},
                          {"rank"},
                          {"lane"},
                          {"step"},
                          {"window"},
                          {"on its way"},
                          {"at work"},
                          {"what; why not earlier", bench::TextTable::Align::left}});
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path.size() > 2 * kMostPiecesAtEachEnd && i == kMostPiecesAtEachEnd) {
      const std::size_t count = path.size() - 2 * kMostPiecesAtEachEnd;
      table.add({"..", "", "", "", "", "", "", fmt::format("({} pieces are left out)", count)});
      i = path.size() - kMostPiecesAtEachEnd;
    }
    table.add(piece_row(call, path[i], i > 0 ? path[i - 1].step.rank : 0));
  }
  text += table.text(width);
  std::vector<std::string> shares;
  for (const auto& [rank, ns] : by_rank)
    shares.push_back(fmt::format("rank {} {}", rank, span_text(ns)));
  text += bench::wrapped(fmt::format("Its time by ranks: {}.", joined(shares)), width);
  if (passings.unmatched > 0) {
    text += fmt::format("{} messages have a record of one end only.\n", passings.unmatched);
  }
  return text;
}

}  // namespace

std::string span_text(std::uint64_t ns) { return time_text(static_cast<double>(ns) / 1e3); }

std::string cause_text(const trace::PathPiece& piece, Rank before) {
  switch (piece.cause) {
    case trace::PathPiece::Cause::began:
      return "the call began";
    case trace::PathPiece::Cause::turn:
      return "was next";
    case trace::PathPiece::Cause::message:
      return fmt::format("had waited for rank {}", before);
    case trace::PathPiece::Cause::room:
      return fmt::format("had waited for rank {} to take", before);
    case trace::PathPiece::Cause::step:
      return "had waited for its other lane";
  }
  return "?";
}

std::string heading_of(const TracedCall& call) {
  const Problem& problem = call.planned.problem;
  const bool plain = call.signature.kind <= static_cast<std::uint8_t>(Kind::barrier);
  return fmt::format(
      "{}{} by {}, {} ranks", operation_text(call.signature),
      plain && problem.kind == Kind::barrier
          ? std::string()
          : fmt::format(" of {} bytes", bench::short_size(bytes_of(call.signature, call.planned))),
      to_string(call.planned.choice.algorithm), problem.size);
}

std::string job_text(const TracedJob& job, const std::string& how_to_ask, std::size_t width) {
  const auto some = [](std::size_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::string text = bench::wrapped(
      fmt::format("job {:x}: {}, {}, {} recorded", job.id, some(job.groups.size(), "communicator"),
                  some(job.hosts, "host"), span_text(job.last)),
      width);
  for (const std::string& remark : job.remarks) text += bench::wrapped("note: " + remark, width);
  for (const TracedGroup& group : job.groups) text += group_text(group, width);
  return text + "\n" +
         bench::wrapped(
             fmt::format("One call, its waits and its critical path: {} --call NUMBER", how_to_ask),
             width);
}

std::string call_text(const TracedGroup& group, const TracedCall& call, std::size_t width) {
  const Choice& choice = call.planned.choice;
  std::string text = bench::wrapped(
      fmt::format("call {} of communicator {}: {}, {}{}{}; it took {}", call.sequence, group.name,
                  heading_of(call), to_string(call.planned.type),
                  reduces(call.planned.problem.kind) ? fmt::format(" {}", call.planned.op) : "",
                  choice.lanes > 1 ? fmt::format(", {} times its lanes", choice.lanes) : "",
                  span_text(call.end - call.begin)),
      width);
  if (call.unended > 0) text += fmt::format("It has no end on {} ranks.\n", call.unended);
  return text + ranks_table(call, width) + lateness_text(call, width) + path_text(call, width);
}

}  // namespace ccoll::show
