// SPDX-License-Identifier: Apache-2.0
// Reports calls and messages that have not moved for long, each once, with the ranks that it waits
// for and their answers. The report ends nothing.
#include <algorithm>
#include <tuple>

#include "comm/failures/waits.hpp"
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

std::string Waits::whereabouts(Owned owned, const CollectiveOperation& operation,
                               Clock::time_point now) const {
  const auto& [plan, run] = std::tie(operation.plan, operation.run);
  const auto cycle = cycle_of(run.sequence);
  if (!operation.started) return std::string(operation.not_begun()) + cycle;
  const auto standing = plan->standing();
  const auto later = standing.silent();
  return fmt::format("{}, for {:.0f} ms; it waits for {}{}{}{}", standing.text(),
                     1000 * seconds(operation.watch(owned).stands.until(now)),
                     self_.ranks_text(standing.awaited()), cycle,
                     later.empty() ? ""
                                   : fmt::format("; later steps need data not yet received from {}",
                                                 self_.ranks_text(later)),
                     stands_.answers_about(run.sequence, now));
}

LongWait Waits::long_wait(Owned owned, Operation& operation, Clock::time_point now,
                          Clock::time_point& next) const {
  const auto limit = self_.options().warn_after;
  auto& watch = operation.watch(owned);
  if (limit.count() == 0 || watch.long_wait == LongWait::logged) return LongWait::no;
  const auto due = deadline_after(limit, watch.stands.since.value_or(operation.begun));
  const auto soon = due - std::min<Clock::duration>(limit / 4, kAskBefore);
  auto stage = LongWait::no;
  if (now >= due)
    stage = LongWait::logged;
  else if (now >= soon)
    stage = LongWait::asked;
  if (stage != LongWait::logged) next = std::min(next, stage == LongWait::no ? soon : due);
  const bool is_news = stage != watch.long_wait;
  watch.long_wait = stage;
  return is_news ? stage : LongWait::no;
}

void Waits::look_at_long_wait(Owned owned, CollectiveOperation& operation, Clock::time_point now,
                              Clock::time_point& next) {
  switch (long_wait(owned, operation, now, next)) {
    case LongWait::no:
      return;
    case LongWait::asked:
      report(owned);
      self_.control().seek_cycle(self_.id(), operation.run.sequence);
      return ask_for_stands(owned, operation, now);
    case LongWait::logged:
      break;
  }
  const Failure late{
      ErrorKind::timed_out,
      fmt::format("{} has waited for {:.3g} s: {}", self_.name_of(operation.run, operation.label),
                  seconds(operation.watch(owned).stands.until(now)),
                  whereabouts(owned, operation, now)),
      std::nullopt};
  log().warn("{}", self_.for_caller(late, operation.label).message);
}

void Waits::log_long_waits(Owned owned, std::span<const std::shared_ptr<MessageOperation>> late,
                           Clock::time_point now) const {
  for (const auto& operation : late.first(std::min(late.size(), kMostLogged))) {
    const Failure failure{
        ErrorKind::timed_out,
        fmt::format("{} has waited for {:.3g} s, {}; it waits for {}{}{}",
                    under_way_.messages(owned).name_of(*operation),
                    seconds(operation->watch(owned).stands.until(now)),
                    under_way_.messages(owned).standing(*operation),
                    self_.ranks_text(under_way_.messages(owned).awaited(*operation)),
                    cycle_of(kFirstMessage + operation->record),
                    stands_.answers_about(kFirstMessage, now)),
        std::nullopt};
    log().warn("{}", self_.for_caller(failure, operation->label).message);
  }
  if (late.size() > kMostLogged)
    log().warn("{}: {} more messages have waited as long", self_.name(), late.size() - kMostLogged);
}

}  // namespace ccoll
