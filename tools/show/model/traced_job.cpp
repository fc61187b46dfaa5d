// SPDX-License-Identifier: Apache-2.0
#include "show/model/traced_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "algorithms/algorithms.hpp"
#include "core/text.hpp"
#include "engine/describe.hpp"

namespace ccoll::show {

namespace {

using trace::Trace;

/// The trace files in a directory, in the order of their names.
Result<std::vector<std::string>> files_in(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("ccoll.") && name.ends_with(".trace")) files.push_back(at->path());
  }
  if (error) {
    return fail(ErrorKind::invalid_argument, "{}: expected a directory that CCOLL_TRACE named: {}",
                directory, error.message());
  }
  if (files.empty()) {
    return fail(
        ErrorKind::invalid_argument,
        "{}: no traces (ccoll.*.trace) there, nor dumps: expected a directory that CCOLL_TRACE or "
        "CCOLL_DUMP named while a program ran",
        directory);
  }
  std::ranges::sort(files);
  return files;
}

/// Calls `change` with every time of the trace.
template <typename Change>
void for_times(Trace& trace, Change change) {
  for (trace::CallRun& call : trace.calls) {
    change(call.begin);
    if (call.end) change(*call.end);
    for (trace::StepRun& step : call.steps) {
      change(step.begin);
      change(step.moved);
      change(step.end);
    }
  }
  for (trace::MessageRun& message : trace.messages) {
    change(message.begin);
    change(message.end);
  }
  for (trace::WriteRun& write : trace.writes) {
    change(write.begin);
    change(write.end);
  }
}

/// The time of its first record, by time of day; 0: none.
std::uint64_t beginning_of(Trace& trace) {
  std::uint64_t first = UINT64_MAX;
  for_times(trace, [&](std::uint64_t& time) { first = std::min(first, time); });
  return first == UINT64_MAX ? 0 : trace::moved_by(first, trace.about.wall_ns);
}

/// The traces of the requested job, or of the newest, which `remarks` then mention.
Result<std::vector<Trace>> of_one_job(std::vector<Trace> traces, std::string job,
                                      std::vector<std::string>& remarks) {
  std::map<std::string, std::uint64_t> begun;  // by job
  for (Trace& trace : traces) {
    std::uint64_t& first = begun[fmt::format("{:x}", trace.about.job)];
    first = std::max(first, beginning_of(trace));
  }
  std::vector<std::string> jobs;
  for (const auto& [name, first] : begun) jobs.push_back(name);
  if (job.empty()) {
    job = std::ranges::max_element(begun, {}, [](const auto& each) { return each.second; })->first;
    if (jobs.size() > 1)
      remarks.push_back(
          fmt::format("there are traces of {} jobs ({}); this is the newest, {}; "
                      "--job shows another",
                      jobs.size(), joined(jobs), job));
  }
  if (!begun.contains(job))
    return fail(ErrorKind::invalid_argument, "no traces of job {}: expected --job with one of {}",
                job, joined(jobs));
  std::erase_if(traces,
                [&](const Trace& trace) { return fmt::format("{:x}", trace.about.job) != job; });
  return traces;
}

/// Converts all times to TracedJob's clock.
void set_clocks(std::vector<Trace>& traces, TracedJob& job) {
  std::set<std::string> clocks, hosts;
  for (const Trace& trace : traces) {
    clocks.insert(trace.about.clock);
    hosts.insert(trace.about.host);
  }
  job.hosts = hosts.size();
  if (clocks.size() > 1) {
    job.remarks.push_back(
        fmt::format("the ranks have {} different clocks, aligned by the time of day: comparisons "
                    "between hosts are only as accurate as their clocks",
                    clocks.size()));
  }
  std::uint64_t first = UINT64_MAX;
  for (Trace& trace : traces) {
    const std::int64_t offset = clocks.size() > 1 ? trace.about.wall_ns : 0;
    for_times(trace, [&](std::uint64_t& time) {
      first = std::min(first, time = trace::moved_by(time, offset));
    });
  }
  for (Trace& trace : traces) {
    for_times(trace, [&](std::uint64_t& time) { job.last = std::max(job.last, time -= first); });
  }
}

Status add_to(TracedGroup& group, Trace trace) {
  const trace::About& about = trace.about;
  if (group.ranks.empty()) {
    group = {about.communicator, about.name, about.size, {}, UINT64_MAX};
    group.ranks.resize(about.size);
  }
  if (group.size != about.size || group.ranks[about.rank]) {
    return fail(ErrorKind::corrupt,
                "{}: another file of communicator {:x} has rank {} too, or another number of ranks",
                trace.path, about.communicator, about.rank);
  }
  for_times(trace, [&](std::uint64_t& time) { group.first = std::min(group.first, time); });
  const Rank rank = about.rank;
  group.ranks[rank] = std::move(trace);
  return {};
}

void remark_on(const TracedGroup& group, TracedJob& job) {
  std::vector<std::uint32_t> without;
  for (Rank rank = 0; rank < group.size; ++rank) {
    if (!group.ranks[rank]) without.push_back(rank);
    if (group.ranks[rank])
      std::ranges::copy(group.ranks[rank]->remarks, std::back_inserter(job.remarks));
  }
  if (!without.empty()) {
    job.remarks.push_back(
        fmt::format("communicator {}: no file of {}", group.name, list_ranks(without)));
  }
}

Program program_of(const trace::Planned& planned, Rank rank) {
  const Problem problem = planned.ragged ? evenly_ragged(planned.problem) : planned.problem;
  return make_program(problem, planned.choice, rank);
}

}  // namespace

std::vector<std::uint64_t> TracedGroup::calls() const {
  std::set<std::uint64_t> numbers;
  for (const auto& trace : ranks) {
    if (!trace) continue;
    for (const trace::CallRun& call : trace->calls) numbers.insert(call.sequence);
  }
  return {numbers.begin(), numbers.end()};
}

Result<TracedJob> read_job(const std::string& directory, const std::string& job_name) {
  const auto files = files_in(directory);
  CCOLL_TRY(files);
  std::vector<Trace> read;
  std::vector<Failure> unreadable;
  for (const std::string& file : *files) {
    auto trace = trace::read_trace(file);
    if (trace)
      read.push_back(std::move(*trace));
    else
      unreadable.push_back(std::move(trace.error()));
  }
  if (read.empty() && !unreadable.empty()) return tl::unexpected(unreadable.front());
  TracedJob job;
  auto traces = of_one_job(std::move(read), job_name, job.remarks);
  CCOLL_TRY(traces);
  job.id = traces->front().about.job;
  for (const Failure& each : unreadable)
    job.remarks.push_back(fmt::format("left out, as it cannot be read: {}", each.message));
  set_clocks(*traces, job);
  std::map<std::uint64_t, TracedGroup> groups;
  for (Trace& trace : *traces)
    CCOLL_TRY(add_to(groups[trace.about.communicator], std::move(trace)));
  for (auto& [id, group] : groups) {
    remark_on(group, job);
    job.groups.push_back(std::move(group));
  }
  std::ranges::stable_sort(job.groups, {}, &TracedGroup::first);
  return job;
}

Result<const TracedGroup*> group_named(const TracedJob& job, const std::string& name) {
  const auto calls = [](const TracedGroup& group) { return group.calls().size(); };
  if (name.empty()) return &*std::ranges::max_element(job.groups, {}, calls);
  std::vector<std::string> names;
  for (const TracedGroup& group : job.groups) {
    const std::string id = fmt::format("{:x}", group.id);
    if (group.name == name || id == name) return &group;
    names.push_back(fmt::format("{} ({})", group.name, id));
  }
  return fail(ErrorKind::invalid_argument, "no communicator '{}' there; expected one of {}", name,
              joined(names));
}

const trace::CallRun* find_call(const Trace& trace, std::uint64_t sequence) {
  const auto found = std::ranges::lower_bound(trace.calls, sequence, {}, &trace::CallRun::sequence);
  return found == trace.calls.end() || found->sequence != sequence ? nullptr : &*found;
}

Result<TracedCall> call_in(const TracedGroup& group, std::uint64_t sequence) {
  TracedCall call;
  call.sequence = sequence;
  call.begin = UINT64_MAX;
  call.whole.ranks.resize(group.size);
  call.whole.programs.resize(group.size);
  for (Rank rank = 0; rank < group.size; ++rank) {
    const auto* run = group.ranks[rank] ? find_call(*group.ranks[rank], sequence) : nullptr;
    if (run == nullptr) {
      ++call.missing;
      continue;
    }
    const trace::Planned& planned = group.ranks[rank]->plans[run->plan];
    if (call.begin == UINT64_MAX) {
      call.planned = planned;
      call.signature = run->signature;
    } else if (!(planned == call.planned)) {
      return fail(ErrorKind::corrupt, "{}: call {} has another plan than on other ranks",
                  group.ranks[rank]->path, sequence);
    }
    call.whole.programs[rank] = program_of(planned, rank);
    call.whole.ranks[rank] = *run;
    call.begin = std::min(call.begin, run->begin);
    call.end = std::max({call.end, run->begin, run->end.value_or(0)});
    for (const trace::StepRun& step : run->steps) call.end = std::max(call.end, step.end);
    if (!run->end) ++call.unended;
  }
  if (call.missing == group.size) {
    const auto calls = group.calls();
    return fail(ErrorKind::invalid_argument, "no call {} in communicator {}{}", sequence,
                group.name,
                calls.empty() ? std::string(", which has none")
                              : fmt::format("; they are {} to {}", calls.front(), calls.back()));
  }
  CCOLL_TRY(trace::check(call.whole));
  return call;
}

std::string operation_text(const Signature& signature) {
  // Signatures may be forged, so only kinds that describe() knows.
  constexpr std::uint8_t kFlags = kRagged | kCoalesced;
  if (serves_others(signature.kind)) return describe(signature);
  const auto kind = static_cast<std::uint8_t>(signature.kind & ~kFlags);
  if (kind > static_cast<std::uint8_t>(Kind::barrier)) return "unknown";
  return fmt::format("{}{}{}", to_string(static_cast<Kind>(kind)),
                     signature.kind & kRagged ? "_v" : "",
                     signature.kind & kCoalesced ? " (coalesced)" : "");
}

std::uint64_t bytes_of(const Signature& signature, const trace::Planned& planned) {
  return signature.count * size_of(planned.type);
}

}  // namespace ccoll::show
