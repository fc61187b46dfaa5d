// SPDX-License-Identifier: Apache-2.0
#include "trace/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>

namespace ccoll::trace {
namespace {

constexpr std::uint32_t kMostTextBytes = 16 << 20;
/// 40 million entries.
constexpr std::uint64_t kMostFileBytes = std::uint64_t{2} << 30;

/// Converts ticks to nanoseconds by linear interpolation between pairs of simultaneous readings.
class TickClock {
 public:
  struct Pair {
    std::uint64_t ticks;
    std::uint64_t ns;
  };

  /// Neither value decreases from one pair to the next.
  explicit TickClock(const std::vector<Pair>& pairs) {
    for (const auto& pair : pairs) {
      is_same_ &= pair.ticks == pair.ns;
      // Between close pairs, reading errors would dominate. If ticks do not advance, no line passes
      // through both.
      if (knots_.empty() ||
          (pair.ns - knots_.back().ns >= kLeastApart && pair.ticks > knots_.back().ticks))
        knots_.push_back(pair);
    }
    if (knots_.size() == 1 && pairs.back().ticks > knots_[0].ticks) knots_.push_back(pairs.back());
  }

  std::uint64_t ns_of(std::uint64_t ticks) const {
    if (is_same_) return ticks;
    if (knots_.size() < 2) return knots_[0].ns;
    const auto later = std::ranges::upper_bound(knots_, ticks, {}, &Pair::ticks);
    const auto end = std::clamp(later, knots_.begin() + 1, knots_.end() - 1);
    const auto& [from, to] = std::pair(*(end - 1), *end);
    const double ns_per_tick =
        static_cast<double>(to.ns - from.ns) / static_cast<double>(to.ticks - from.ticks);
    if (ticks < from.ticks)
      return from.ns - std::min(from.ns, whole(ns_per_tick, from.ticks - ticks));
    const auto ns = from.ns + std::min(kLast - from.ns, whole(ns_per_tick, ticks - from.ticks));
    // Rounding must not move one line's times into the next one's.
    return ticks <= to.ticks ? std::min(ns, to.ns) : std::max(ns, to.ns);
  }

 private:
  static constexpr std::uint64_t kLeastApart = 1'000'000;
  static constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();

  /// Whatever a file contains, times stay representable and ordered.
  static std::uint64_t whole(double ns_per_tick, std::uint64_t ticks) {
    const double ns = ns_per_tick * static_cast<double>(ticks);
    return ns < 1.8e19 ? static_cast<std::uint64_t>(ns) : kLast;
  }

  std::vector<Pair> knots_;
  bool is_same_ = true;
};

class Reader {
 public:
  Reader(const std::string& path, std::string_view bytes) : bytes_(bytes) { trace_.path = path; }

  Result<Trace> read() {
    CCOLL_TRY(read_header());
    while (!bytes_.empty()) {
      entry_ = at_;
      if (bytes_.size() < kEntryBytes || bytes_.size() - kEntryBytes < text_bytes_of_entry()) {
        trace_.remarks.push_back(
            fmt::format("{}: ends in the middle of an entry, at byte {}: what came before is shown",
                        trace_.path, at_));
        break;
      }
      CCOLL_TRY(read_entry());
    }
    make_nanoseconds();
    if (unknown_ > 0)
      trace_.remarks.push_back(
          fmt::format("{}: {} entries of kinds that this version does not know are skipped",
                      trace_.path, unknown_));
    return std::move(trace_);
  }

 private:
  template <typename... Args>
  tl::unexpected<Failure> wrong(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(ErrorKind::corrupt, "{}: at byte {}: {}", trace_.path, entry_,
                fmt::format(text, std::forward<Args>(args)...));
  }

  std::string_view take(std::size_t bytes) {
    const auto taken = bytes_.substr(0, bytes);
    bytes_.remove_prefix(taken.size());
    at_ += taken.size();
    return taken;
  }
  template <typename Entry>
  Entry look() const {
    static_assert(kIsEntry<Entry>);
    Entry entry;
    std::memcpy(static_cast<void*>(&entry), bytes_.data(), sizeof(entry));
    return entry;
  }
  template <typename Entry>
  Entry take() {
    const auto entry = look<Entry>();
    take(kEntryBytes);
    return entry;
  }
  EntryKind kind() const { return static_cast<EntryKind>(bytes_.front()); }
  /// The size of the text after the entry; 0 if the entry is yet to be refused.
  std::size_t text_bytes_of_entry() const {
    if (kind() != EntryKind::plan) return 0;
    const auto bytes = look<PlanEntry>().text_bytes;
    return bytes <= kMostTextBytes ? filled_up(bytes) : 0;
  }

  Status read_header() {
    if (bytes_.size() < kEntryBytes ||
        std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) != 0)
      return wrong("this is not a trace of ccoll, which begins with '{}'",
                   std::string_view(kMagic.data(), kMagic.size() - 1));
    const auto header = take<FileHeader>();
    if (header.byte_order != kByteOrder)
      return wrong("written by a machine with another order of bytes");
    if (header.version != kVersion || header.entry_bytes != kEntryBytes)
      return wrong("its format is {}, with entries of {} bytes; expected {}, of {}", header.version,
                   header.entry_bytes, kVersion, kEntryBytes);
    if (header.text_bytes > kMostTextBytes || filled_up(header.text_bytes) > bytes_.size())
      return wrong("a text of {} bytes, where {} follow", header.text_bytes, bytes_.size());
    auto about = parse_about(take(filled_up(header.text_bytes)).substr(0, header.text_bytes));
    if (!about) return wrong("{}", about.error().message);
    trace_.about = std::move(*about);
    return {};
  }

  Status read_entry() {
    switch (kind()) {
      case EntryKind::plan:
        return read_plan(take<PlanEntry>());
      case EntryKind::call:
        return read_call(take<CallEntry>());
      case EntryKind::end:
        return read_end(take<EndEntry>());
      case EntryKind::step:
        return read_step(take<StepEntry>());
      case EntryKind::message:
        return read_message(take<MessageEntry>());
      case EntryKind::write:
        return read_write(take<WriteEntry>());
      case EntryKind::clock:
        return read_clock(take<ClockEntry>());
      case EntryKind::blocks:
        return read_blocks(take<BlocksEntry>());
    }
    take(kEntryBytes);
    unknown_++;
    return {};
  }

  Status read_plan(const PlanEntry& entry) {
    if (entry.text_bytes > kMostTextBytes) return wrong("a text of {} bytes", entry.text_bytes);
    if (entry.plan != trace_.plans.size())
      return wrong("plan {}, where plan {} is expected", entry.plan, trace_.plans.size());
    auto planned =
        parse_planned(take(filled_up(entry.text_bytes)).substr(0, entry.text_bytes), trace_.about);
    if (!planned) return wrong("{}", planned.error().message);
    trace_.plans.push_back(std::move(*planned));
    return {};
  }

  Status read_call(const CallEntry& entry) {
    if (entry.plan >= trace_.plans.size())
      return wrong("a call by plan {} of {}", entry.plan, trace_.plans.size());
    if (!trace_.calls.empty() && entry.sequence <= trace_.calls.back().sequence)
      return wrong("call {} after call {}", entry.sequence, trace_.calls.back().sequence);
    CallRun call;
    call.sequence = entry.sequence;
    call.plan = entry.plan;
    call.signature.kind = entry.signature_kind;
    call.signature.type = entry.signature_type;
    call.signature.op = entry.signature_op;
    call.signature.count = entry.count;
    call.signature.root = entry.root;
    call.begin = entry.begin;
    trace_.calls.push_back(std::move(call));
    return {};
  }

  bool is_in_call() const { return !trace_.calls.empty() && !trace_.calls.back().end; }

  Status read_end(const EndEntry& entry) {
    if (!is_in_call() || entry.sequence != trace_.calls.back().sequence)
      return wrong("the end of call {}, which has not begun", entry.sequence);
    auto& call = trace_.calls.back();
    const auto least = call.steps.empty() ? call.begin : call.steps.back().end;
    if (entry.end < least) return wrong("call {} ends before it is over", entry.sequence);
    call.end = entry.end;
    return {};
  }

  Status read_step(const StepEntry& entry) {
    if (!is_in_call() || entry.sequence != static_cast<std::uint32_t>(trace_.calls.back().sequence))
      return wrong("a step of call {}, which has not begun", entry.sequence);
    auto& call = trace_.calls.back();
    if (entry.begin < call.begin || entry.moved < entry.begin || entry.end < entry.moved)
      return wrong("a step of call {} that ends before it begins", entry.sequence);
    if (entry.peer >= trace_.about.size || entry.awaited > Awaited::step)
      return wrong("a step that waits for rank {} of {}", entry.peer, trace_.about.size);
    if (!call.steps.empty() && entry.end < call.steps.back().end)
      return wrong("a step of call {} that ends before the one that ended last", entry.sequence);
    call.steps.push_back({entry.lane, entry.step, entry.window, entry.awaited, entry.peer,
                          entry.bytes, entry.begin, entry.moved, entry.end});
    return {};
  }

  Status read_blocks(const BlocksEntry& entry) {
    if (!is_in_call() || !trace_.plans[trace_.calls.back().plan].ragged)
      return wrong("blocks of different sizes without a call that has them");
    auto& blocks = trace_.calls.back().blocks;
    if (entry.first >= trace_.about.size || entry.first % BlocksEntry::kCounts != 0)
      return wrong("sizes from block {} on, of {}", entry.first, trace_.about.size);
    if (std::ranges::any_of(entry.counts, [](auto count) { return count > kMostElements; }))
      return wrong("a block of more than {} elements", kMostElements);
    blocks.push_back({entry.first, entry.counts});
    return {};
  }

  Status read_message(const MessageEntry& entry) {
    if (entry.peer >= trace_.about.size)
      return wrong("a message with rank {} of {}", entry.peer, trace_.about.size);
    if (entry.end < entry.begin) return wrong("a message that ends before it begins");
    trace_.messages.push_back(
        {entry.is_send != 0, entry.peer, entry.tag, entry.bytes, entry.begin, entry.end});
    return {};
  }

  Status read_write(const WriteEntry& entry) {
    if (entry.end < entry.begin) return wrong("a write that ends before it begins");
    trace_.writes.push_back({entry.bytes, entry.begin, entry.end});
    return {};
  }

  Status read_clock(const ClockEntry& entry) {
    if (!clocks_.empty() && (entry.ticks < clocks_.back().ticks || entry.ns < clocks_.back().ns))
      return wrong("a clock that goes back");
    clocks_.push_back({entry.ticks, entry.ns});
    return {};
  }

  /// Converts times; messages have them already.
  void make_nanoseconds() {
    const TickClock clock(clocks_);
    const auto change = [&](std::uint64_t& time) { time = clock.ns_of(time); };
    for (auto& call : trace_.calls) {
      change(call.begin);
      if (call.end) change(*call.end);
      for (auto& step : call.steps) {
        change(step.begin);
        change(step.moved);
        change(step.end);
      }
    }
    for (auto& write : trace_.writes) {
      change(write.begin);
      change(write.end);
    }
  }

  std::string_view bytes_;
  std::vector<TickClock::Pair> clocks_;
  std::size_t at_ = 0;     ///< where they begin in the file
  std::size_t entry_ = 0;  ///< where the current entry begins
  std::size_t unknown_ = 0;
  Trace trace_;
};

}  // namespace

std::uint64_t moved_by(std::uint64_t time, std::int64_t offset) {
  const auto distance = static_cast<std::uint64_t>(offset);
  if (offset < 0) return time - std::min(time, -distance);
  return time + std::min(UINT64_MAX - time, distance);
}

Result<Trace> parse_trace(const std::string& path, std::string_view bytes) {
  return Reader(path, bytes).read();
}

Result<Trace> read_trace(const std::string& path) {
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorKind::invalid_argument, "cannot read {}: {}", path, why);
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error) return refuse(error.message());
  if (!std::filesystem::is_regular_file(status)) return refuse("it is not a file");
  const auto size = std::filesystem::file_size(path, error);
  if (error) return refuse(error.message());
  if (size > kMostFileBytes)
    return refuse(fmt::format("it has {} bytes, more than {}", size, kMostFileBytes));
  std::string bytes(size, '\0');
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!file.is_open() || file.bad()) return refuse(std::strerror(errno));
  // Its program may still write to it, or another may truncate it.
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return parse_trace(path, bytes);
}

}  // namespace ccoll::trace
