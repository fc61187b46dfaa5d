// SPDX-License-Identifier: Apache-2.0
#include "comm/record/tracing.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>

#include "ccoll/version.hpp"
#include "comm/record/trace/texts.hpp"
#include "rendezvous/identity.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"
#include "system/variables.hpp"

namespace ccoll {
namespace {

/// Writes a plan's reports of its runs.
class PlanTracer final : public StepObserver {
 public:
  PlanTracer(trace::Recorder& recorder, std::uint32_t plan, std::size_t lanes)
      : recorder_(recorder), plan_(plan), lanes_(lanes) {}

  void begins(const Signature& signature, std::uint64_t sequence) override {
    trace::CallEntry entry;
    entry.signature_kind = signature.kind;
    entry.signature_type = signature.type;
    entry.signature_op = signature.op;
    entry.plan = plan_;
    entry.sequence = sequence_ = sequence;
    entry.begin = last_ = recorder_.ticks();
    entry.count = signature.count;
    entry.root = signature.root;
    recorder_.add(entry);
    for (auto& lane : lanes_) lane = {entry.begin, entry.begin};
  }
  void has_blocks(const Problem& as_seen) override {
    const auto& counts = as_seen.block_counts;
    for (std::size_t first = 0; first < counts.size(); first += trace::BlocksEntry::kCounts) {
      trace::BlocksEntry entry;
      entry.first = static_cast<std::uint32_t>(first);
      const auto here = std::min(counts.size() - first, trace::BlocksEntry::kCounts);
      std::copy_n(counts.begin() + static_cast<std::ptrdiff_t>(first), here, entry.counts.begin());
      if (first == 0 || entry.counts != decltype(entry.counts){}) recorder_.add(entry);
    }
  }
  void moves(std::uint16_t lane, Awaited what, Rank peer) override {
    auto& at = lanes_[lane];
    // A step that need not wait begins when this rank last read the clock, which saves a read.
    at = {at.begun, what == Awaited::nothing ? last_ : read_clock(), peer, what};
  }
  void ran(const StepRecord& step, std::size_t bytes) override {
    auto& lane = lanes_[step.lane];
    trace::StepEntry entry;
    entry.awaited = lane.awaited;
    entry.lane = step.lane;
    entry.step = step.step;
    entry.window = static_cast<std::uint32_t>(step.window);
    entry.peer = lane.peer;
    entry.bytes = static_cast<std::uint32_t>(bytes);
    entry.sequence = static_cast<std::uint32_t>(sequence_);
    entry.begin = lane.begun;
    entry.moved = lane.moved;
    entry.end = read_clock();
    recorder_.add(entry);
    lane = {entry.end, entry.end};
  }
  void ends() override {
    trace::EndEntry entry;
    entry.sequence = sequence_;
    entry.end = read_clock();
    recorder_.add(entry);
    recorder_.write_at_times(entry.end);
  }

 private:
  /// Never back, whatever the processor does with its counter.
  std::uint64_t read_clock() { return last_ = std::max(last_, recorder_.ticks()); }

  /// State of a lane's present step.
  struct At {
    std::uint64_t begun = 0;
    std::uint64_t moved = 0;
    Rank peer = 0;
    Awaited awaited = Awaited::nothing;
  };

  trace::Recorder& recorder_;
  const std::uint32_t plan_;
  std::uint64_t sequence_ = 0;
  std::uint64_t last_ = 0;  ///< when the clock was last read
  std::vector<At> lanes_;
};

/// Difference between the time of day and the clock of traces.
std::int64_t wall_clock_offset() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec -
         static_cast<std::int64_t>(trace::now());
}

/// Processes with the same identity read the same clock.
std::string clock_identity() {
  std::error_code ignored;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/time", ignored);
  return fmt::format("CLOCK_MONOTONIC {} {}", boot_identity().value_or(""), space.string());
}

trace::About about(const Tracing::Whose& whose, std::vector<std::uint32_t> host_of) {
  trace::About about;
  about.version = version();
  about.job = whose.job;
  about.communicator = whose.communicator;
  about.name = whose.name;
  about.rank = whose.rank;
  about.size = whose.size;
  about.host_of = std::move(host_of);
  about.host = host_name();
  about.process = static_cast<std::uint64_t>(getpid());
  about.clock = clock_identity();
  about.wall_ns = wall_clock_offset();
  return about;
}

Result<std::unique_ptr<trace::Recorder>> recorder_in(const std::string& directory,
                                                     const Tracing::Whose& whose,
                                                     std::vector<std::uint32_t> host_of) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    return fail(ErrorKind::exhausted, "cannot make the directory {}: {}", directory,
                error.message());
  const auto path = fmt::format("{}/ccoll.{:x}.{:x}.{}.trace", directory, whose.job,
                                whose.communicator, whose.rank);
  return trace::Recorder::create(path, trace::to_text(about(whose, std::move(host_of))));
}

/// One warning will do: what stops one trace of a process stops the others.
struct Obstacle {
  std::atomic<bool> is_there{false};
};

}  // namespace

std::unique_ptr<Tracing> Tracing::begin(const Whose& whose, std::vector<std::uint32_t> host_of) {
  auto& in_vain = Runtime::one<Obstacle>().is_there;
  const auto directory = read_variable("CCOLL_TRACE");
  if (!directory || in_vain) return nullptr;
  auto recorder = recorder_in(*directory, whose, std::move(host_of));
  if (recorder) return std::unique_ptr<Tracing>(new Tracing(std::move(*recorder)));
  if (!in_vain.exchange(true))
    log().warn("CCOLL_TRACE: {}; this process is not traced", recorder.error().message);
  return nullptr;
}

std::unique_ptr<StepObserver> Tracing::observer_for(const PlanRequest& request, bool ragged) {
  trace::Planned planned;
  planned.problem = request.problem;
  planned.ragged = ragged;
  planned.choice = request.choice;
  planned.type = request.type;
  planned.op = request.op ? to_string(*request.op) : std::string_view("custom");
  trace::PlanEntry entry;
  entry.plan = plans_++;
  recorder_->add_plan(entry, trace::to_text(planned));
  return std::make_unique<PlanTracer>(*recorder_, entry.plan, request.program.lanes.size());
}

void Tracing::write() { recorder_->write(); }

void Tracing::message(const Message& message) {
  trace::MessageEntry entry;
  entry.is_send = message.is_send ? 1 : 0;
  entry.type = static_cast<std::uint8_t>(message.type);
  entry.peer = message.peer;
  entry.tag = message.tag;
  entry.bytes = message.bytes;
  entry.begin = message.begun;
  entry.end = trace::now();
  recorder_->add(entry);
  recorder_->write_at_times(recorder_->ticks());
}

}  // namespace ccoll
