// SPDX-License-Identifier: Apache-2.0
#include "show/page/trace_json.hpp"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "schedule/text.hpp"
#include "show/text/trace_text.hpp"

namespace ccoll::show {

namespace {

/// Track numbers of one communicator; Perfetto orders tracks by number.
constexpr std::uint64_t kTracks = 1 << 17;
constexpr std::uint64_t kCalls = 0;
constexpr std::uint64_t kMessages = 1;
constexpr std::uint64_t kFirstLane = 2;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// Microseconds, with nanosecond resolution.
std::string micros(std::uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

class Writer {
 public:
  /// `number`: the communicator's, which distinguishes its tracks.
  void begin_group(const TracedGroup& group, std::uint64_t number) {
    group_ = &group;
    tracks_ = number * kTracks;
    named_.clear();
  }

  void add_call(const TracedCall& call) {
    for (Rank rank = 0; rank < call.whole.ranks.size(); ++rank) {
      const auto& run = call.whole.ranks[rank];
      if (!run) continue;
      const std::uint64_t end =
          run->end.value_or(run->steps.empty() ? run->begin : run->steps.back().end);
      slice(rank, kCalls, "call", heading_of(call), run->begin, end,
            fmt::format("\"call\":{},\"ended\":{}", call.sequence, run->end.has_value()));
      for (const trace::StepRun& step : run->steps) add_step(call, rank, step);
    }
    for (const trace::Passed& passed : trace::passings_of(call.whole).all) add_arrow(call, passed);
  }

  void add_messages(std::uint64_t from, std::uint64_t to) {
    for (Rank rank = 0; rank < group_->size; ++rank) {
      if (!group_->ranks[rank]) continue;
      for (const trace::MessageRun& message : group_->ranks[rank]->messages) {
        if (message.end < from || message.begin > to) continue;
        slice(rank, kMessages, "message",
              fmt::format("{} rank {}", message.is_send ? "send to" : "recv from", message.peer),
              message.begin, message.end,
              fmt::format("\"bytes\":{},\"tag\":{}", message.bytes, message.tag));
      }
    }
  }

  void add_writes() {
    for (Rank rank = 0; rank < group_->size; ++rank) {
      if (!group_->ranks[rank]) continue;
      for (const trace::WriteRun& write : group_->ranks[rank]->writes) {
        slice(rank, kCalls, "write", "the trace is written", write.begin, write.end,
              fmt::format("\"bytes\":{}", write.bytes));
      }
    }
  }

  std::string document() && {
    return fmt::format("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
                       std::move(events_));
  }

 private:
  void add_step(const TracedCall& call, Rank rank, const trace::StepRun& run) {
    const std::uint64_t track = kFirstLane + run.lane;
    if (run.awaited != Awaited::nothing && run.moved > run.begin) {
      slice(rank, track, "wait",
            run.awaited == Awaited::step
                ? std::string("waits for its other lane")
                : fmt::format("waits for rank {}{}", run.peer,
                              run.awaited == Awaited::room ? " to take" : ""),
            run.begin, run.moved, fmt::format("\"call\":{}", call.sequence));
    }
    const Step& step = call.whole.programs[rank].lanes[run.lane].steps[run.step];
    slice(rank, track, "step", to_string(step, run.lane), run.moved, run.end,
          fmt::format("\"call\":{},\"lane\":{},\"step\":{},\"window\":{},\"bytes\":{}",
                      call.sequence, run.lane, run.step, run.window, run.bytes));
  }

  void add_arrow(const TracedCall& call, const trace::Passed& passed) {
    const auto& from = call.whole.ranks[passed.from.rank]->steps[passed.from.index];
    const auto& to = call.whole.ranks[passed.to.rank]->steps[passed.to.index];
    const std::uint64_t number = ++arrows_;
    event(fmt::format(
        "\"ph\":\"s\",\"id\":{},\"cat\":\"slice\",\"name\":\"slice\",\"pid\":{},"
        "\"tid\":{},\"ts\":{}",
        number, passed.from.rank, tracks_ + kFirstLane + from.lane, micros(from.moved)));
    event(
        fmt::format("\"ph\":\"f\",\"bp\":\"e\",\"id\":{},\"cat\":\"slice\",\"name\":\"slice\","
                    "\"pid\":{},\"tid\":{},\"ts\":{}",
                    number, passed.to.rank, tracks_ + kFirstLane + to.lane, micros(to.moved)));
  }

  void slice(Rank rank, std::uint64_t track, std::string_view category, const std::string& name,
             std::uint64_t begin, std::uint64_t end, const std::string& arguments) {
    name_track(rank, track);
    event(
        fmt::format("\"ph\":\"X\",\"cat\":\"{}\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{},"
                    "\"dur\":{},\"args\":{{{}}}",
                    category, quoted(name), rank, tracks_ + track, micros(begin),
                    micros(end - begin), arguments));
  }

  void name_track(Rank rank, std::uint64_t track) {
    if (!named_.emplace(rank, track).second) return;
    const auto name = [&](std::string_view what, const std::string& text) {
      event(
          fmt::format("\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}",
                      what, rank, tracks_ + track, quoted(text)));
    };
    const trace::About& about = group_->ranks[rank]->about;
    name("process_name", fmt::format("rank {} ({}, process {})", rank, about.host, about.process));
    const std::string what = track == kCalls      ? std::string("calls")
                             : track == kMessages ? std::string("messages")
                                                  : fmt::format("lane {}", track - kFirstLane);
    name("thread_name", fmt::format("{}: {}", group_->name, what));
  }

  void event(const std::string& fields) {
    fmt::format_to(std::back_inserter(events_), "{}{{{}}}", events_.empty() ? "" : ",\n", fields);
  }

  const TracedGroup* group_ = nullptr;
  std::uint64_t tracks_ = 0;
  std::uint64_t arrows_ = 0;
  std::set<std::pair<Rank, std::uint64_t>> named_;
  std::string events_;
};

}  // namespace

Result<std::string> perfetto_json(const TracedJob& job, const TracedGroup& group,
                                  std::optional<std::uint64_t> number) {
  Writer writer;
  if (number) {
    const auto call = call_in(group, *number);
    CCOLL_TRY(call);
    writer.begin_group(group, 0);
    writer.add_call(*call);
    writer.add_messages(call->begin, call->end);
    return std::move(writer).document();
  }
  for (std::size_t i = 0; i < job.groups.size(); ++i) {
    writer.begin_group(job.groups[i], i);
    for (const std::uint64_t each : job.groups[i].calls()) {
      const auto call = call_in(job.groups[i], each);
      CCOLL_TRY(call);
      writer.add_call(*call);
    }
    writer.add_messages(0, UINT64_MAX);
    writer.add_writes();
  }
  return std::move(writer).document();
}

}  // namespace ccoll::show
