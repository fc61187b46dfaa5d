// SPDX-License-Identifier: Apache-2.0
// How a communicator tells control which ranks it waits for, asks them where they stand, and hears
// of ranks that wait for each other in a cycle (control/state/cycles.hpp).
#include <algorithm>

#include "comm/failures/waits.hpp"
#include "core/text.hpp"
#include "engine/describe.hpp"

namespace ccoll {
namespace {

/// A cycle is sought this long before a call's time limit, but not in the first three quarters.
constexpr std::chrono::milliseconds kBefore{500};

/// Further messages are not reported.
constexpr std::size_t kMostReported = 16;

/// Upper bound on ranks asked at once; else thousands would ask thousands.
constexpr std::size_t kMostAsked = 32;

}  // namespace

void Waits::report(Owned owned) {
  std::vector<OpenWait> waits;
  const auto add = [&](std::uint64_t sequence, std::string text, const std::vector<Rank>& ranks) {
    OpenWait wait{self_.id(), sequence, std::move(text), {}};
    for (const auto rank : ranks) wait.ranks.push_back(self_.group().job_rank(rank));
    waits.push_back(std::move(wait));
  };
  if (const auto* first = under_way_.collectives(owned).started()) {
    const auto& run = first->run;
    const auto awaited = first->plan->standing().awaited();
    stands_.set(StandReport{run.sequence,
                            first->plan->standing().text() +
                                (awaited.empty() ? "" : ", waiting for " + list_ranks(awaited)),
                            first->watch(owned).stands.since.value_or(first->begun)});
    add(run.sequence,
        fmt::format("{} #{} of communicator {}", words_of(run.signature).kind, run.sequence,
                    shown_label(self_.name())),
        awaited);
  }
  for (const auto& operation : under_way_.messages(owned).pending()) {
    // A transfer that is on its way may only be slow.
    const bool stands = operation->stage == MessageOperation::Stage::posted ||
                        operation->stage == MessageOperation::Stage::requested;
    if (waits.size() >= kMostReported) break;
    if (!stands) continue;
    add(kFirstMessage + operation->record,
        fmt::format("{} of communicator {}",
                    operation->what == MessageOperation::What::send ? "a send" : "a receive",
                    shown_label(self_.name())),
        under_way_.messages(owned).awaited(*operation));
  }
  reported_(owned) = true;
  self_.control().tell_waits(self_.id(), std::move(waits));
}

void Waits::take_back(Owned owned) {
  if (!std::exchange(reported_(owned), false)) return;
  stands_.set(std::nullopt);
  self_.control().tell_waits(self_.id(), {});
}

bool Waits::seek_cycle(Owned owned, Operation& operation, std::uint64_t sequence,
                       Clock::time_point now, Clock::time_point& next) {
  if (operation.watch(owned).sought) return false;
  const auto limit = operation.deadline - operation.begun;
  const auto seek_at = operation.deadline - std::min<Clock::duration>(limit / 4, kBefore);
  if (now < seek_at) {
    next = std::min(next, seek_at);
    return false;
  }
  operation.watch(owned).sought = true;
  report(owned);
  self_.control().seek_cycle(self_.id(), sequence);
  return true;
}

std::string Waits::cycle_of(std::uint64_t sequence) const {
  const auto cycle = stands_.cycle_of(sequence);
  if (cycle.empty()) return "";
  return fmt::format("; a cycle{}: {}",
                     self_.group().numbered_as_job() ? "" : " (by ranks of the job)", cycle);
}

void Waits::ask_for_stands(Owned owned, const CollectiveOperation& operation,
                           Clock::time_point now) {
  Stands::Question question{operation.run.sequence, now, operation.plan->standing().awaited()};
  std::ranges::copy(operation.plan->standing().silent(), std::back_inserter(question.ranks));
  ask_for_stands(owned, std::move(question));
}

void Waits::ask_for_stands(Owned /*owned*/, Stands::Question question) {
  Waiting sent{self_.id(), question.sequence, {}};
  sent.signature.kind = kAsksStand;
  std::vector<std::uint32_t> to;
  for (const auto rank : stands_.ask(std::move(question)))
    to.push_back(self_.group().job_rank(rank));
  self_.control().publish(sent, to);
}

void Waits::answer(std::uint32_t peer, std::uint64_t sequence, Clock::time_point now) {
  Waiting told{self_.id(), sequence, {}, stands_.answer(sequence, now)};
  told.signature.kind = kTellsStand;
  self_.control().publish(told, {peer});
}

void Waits::look_for(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return;
  std::vector<std::uint32_t> job_ranks;
  job_ranks.reserve(ranks.size());
  for (const auto rank : ranks) job_ranks.push_back(self_.group().job_rank(rank));
  self_.control().probe(job_ranks);
}

void Waits::ask_for_messages(Owned owned, std::vector<Rank> ranks, Clock::time_point now) {
  if (!ranks.empty()) messages_asked_at_(owned) = now;
  ask_whether_closed(owned, std::move(ranks));
}

void Waits::ask_whether_closed(Owned owned, std::vector<Rank> ranks) {
  if (ranks.empty()) return;
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.size() > kMostAsked) {
    // Go on behind those that were asked last.
    const auto next = std::ranges::upper_bound(ranks, last_rank_asked_(owned));
    std::rotate(ranks.begin(), next, ranks.end());
    ranks.resize(kMostAsked);
  }
  last_rank_asked_(owned) = ranks.back();
  Waiting asked{self_.id(), 0, {}};
  asked.signature.kind = kAsksClosed;
  std::vector<std::uint32_t> to;
  for (const auto rank : ranks) to.push_back(self_.group().job_rank(rank));
  self_.control().publish(asked, to);
}

bool Waits::looks_again(Owned owned, Clock::time_point now) {
  if (now - looked_(owned) < kAgain) return false;
  looked_(owned) = now;
  return true;
}

}  // namespace ccoll
