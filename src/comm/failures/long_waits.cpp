// SPDX-License-Identifier: Apache-2.0
// Reports calls and messages that have not moved for long, each once, with the ranks that it waits
// for and their answers. The report ends nothing.
#include <algorithm>

#include "comm/api/implementation.hpp"
#include "core/deadline.hpp"
#include "core/text.hpp"
#include "system/log.hpp"

namespace ccoll {
namespace {

/// The others are asked this long before the report, but not in the first three quarters.
constexpr std::chrono::milliseconds kAskBefore{500};

/// Further messages that wait as long are only counted.
constexpr std::size_t kMostLogged = 4;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

LongWait Communicator::Implementation::long_wait(Owned /*owned*/, Operation& operation,
                                                 Clock::time_point now,
                                                 Clock::time_point& next) const {
  const auto limit = options_.warn_after;
  if (limit.count() == 0 || operation.long_wait == LongWait::logged) return LongWait::no;
  const auto due = deadline_after(limit, operation.stands.since.value_or(operation.begun));
  const auto soon = due - std::min<Clock::duration>(limit / 4, kAskBefore);
  auto stage = LongWait::no;
  if (now >= due)
    stage = LongWait::logged;
  else if (now >= soon)
    stage = LongWait::asked;
  if (stage != LongWait::logged) next = std::min(next, stage == LongWait::no ? soon : due);
  const bool is_news = stage != operation.long_wait;
  operation.long_wait = stage;
  return is_news ? stage : LongWait::no;
}

void Communicator::Implementation::look_at_long_wait(Owned owned, CollectiveOperation& operation,
                                                     Clock::time_point now,
                                                     Clock::time_point& next) {
  switch (long_wait(owned, operation, now, next)) {
    case LongWait::no:
      return;
    case LongWait::asked:
      report_waits(owned);
      member_->control().seek_cycle(id_, operation.run.sequence);
      return ask_for_stands(owned, operation, now);
    case LongWait::logged:
      break;
  }
  const Failure late{ErrorKind::timed_out,
                     fmt::format("{} has waited for {:.3g} s: {}", name_of(operation),
                                 seconds(operation.stands.until(now)), whereabouts(operation, now)),
                     std::nullopt};
  log().warn("{}", for_caller(late, operation.label).message);
}

void Communicator::Implementation::log_long_waits(
    Owned owned, std::span<const std::shared_ptr<MessageOperation>> late,
    Clock::time_point now) const {
  for (const auto& operation : late.first(std::min(late.size(), kMostLogged))) {
    const Failure failure{
        ErrorKind::timed_out,
        fmt::format(
            "{} has waited for {:.3g} s, {}; it waits for {}{}{}",
            messages_(owned).name_of(*operation), seconds(operation->stands.until(now)),
            messages_(owned).standing(*operation), ranks_text(messages_(owned).awaited(*operation)),
            cycle_of(kFirstMessage + operation->record), stands_.answers_about(kFirstMessage, now)),
        std::nullopt};
    log().warn("{}", for_caller(failure, operation->label).message);
  }
  if (late.size() > kMostLogged)
    log().warn("{}: {} more messages have waited as long", name_, late.size() - kMostLogged);
}

}  // namespace ccoll
