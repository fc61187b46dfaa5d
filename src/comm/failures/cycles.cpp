// SPDX-License-Identifier: Apache-2.0
// How a communicator tells control which ranks it waits for, asks them where they stand, and hears
// of ranks that wait for each other in a cycle (control/state/cycles.hpp).
#include <algorithm>

#include "comm/api/implementation.hpp"
#include "core/text.hpp"
#include "engine/describe.hpp"

namespace ccoll {
namespace {

/// A cycle is sought this long before a call's time limit, but not in the first three quarters.
constexpr std::chrono::milliseconds kBefore{500};

/// Further messages are not reported.
constexpr std::size_t kMostReported = 16;

}  // namespace

void Communicator::Implementation::report_waits(Owned owned) {
  std::vector<OpenWait> waits;
  const auto add = [&](std::uint64_t sequence, std::string text, const std::vector<Rank>& ranks) {
    OpenWait wait{id_, sequence, std::move(text), {}};
    for (const auto rank : ranks) wait.ranks.push_back(group_.job_rank(rank));
    waits.push_back(std::move(wait));
  };
  if (const auto* first = collectives_(owned).started()) {
    const auto& run = first->run;
    const auto awaited = first->plan->awaited();
    stands_.set(StandReport{
        run.sequence,
        first->plan->standing() + (awaited.empty() ? "" : ", waiting for " + list_ranks(awaited)),
        first->stands.since.value_or(first->begun)});
    add(run.sequence,
        fmt::format("{} #{} of communicator {}", words_of(run.signature).kind, run.sequence,
                    shown_label(name_)),
        awaited);
  }
  for (const auto& operation : messages_(owned).pending()) {
    // A transfer that is on its way may only be slow.
    const bool stands = operation->stage == MessageOperation::Stage::posted ||
                        operation->stage == MessageOperation::Stage::requested;
    if (waits.size() >= kMostReported) break;
    if (!stands) continue;
    add(kFirstMessage + operation->record,
        fmt::format("{} of communicator {}",
                    operation->what == MessageOperation::What::send ? "a send" : "a receive",
                    shown_label(name_)),
        messages_(owned).awaited(*operation));
  }
  waits_reported_(owned) = true;
  member_->control().tell_waits(id_, std::move(waits));
}

void Communicator::Implementation::take_waits_back(Owned owned) {
  if (!std::exchange(waits_reported_(owned), false)) return;
  stands_.set(std::nullopt);
  member_->control().tell_waits(id_, {});
}

bool Communicator::Implementation::seek_cycle(Owned owned, Operation& operation,
                                              std::uint64_t sequence, Clock::time_point now,
                                              Clock::time_point& next) {
  if (operation.sought) return false;
  const auto limit = operation.deadline - operation.begun;
  const auto seek_at = operation.deadline - std::min<Clock::duration>(limit / 4, kBefore);
  if (now < seek_at) {
    next = std::min(next, seek_at);
    return false;
  }
  operation.sought = true;
  report_waits(owned);
  member_->control().seek_cycle(id_, sequence);
  return true;
}

void Communicator::Implementation::in_cycle(std::uint64_t sequence, const std::string& cycle) {
  stands_.note_cycle(sequence, cycle);
}

std::string Communicator::Implementation::cycle_of(std::uint64_t sequence) const {
  const auto cycle = stands_.cycle_of(sequence);
  if (cycle.empty()) return "";
  return fmt::format("; a cycle{}: {}", group_.numbered_as_job() ? "" : " (by ranks of the job)",
                     cycle);
}

void Communicator::Implementation::ask_for_stands(Owned owned, const CollectiveOperation& operation,
                                                  Clock::time_point now) {
  Stands::Question question{operation.run.sequence, now, operation.plan->awaited()};
  std::ranges::copy(operation.plan->silent(), std::back_inserter(question.ranks));
  ask_for_stands(owned, std::move(question));
}

void Communicator::Implementation::ask_for_stands(Owned /*owned*/, Stands::Question question) {
  Waiting sent{id_, question.sequence, {}};
  sent.signature.kind = kAsksStand;
  std::vector<std::uint32_t> to;
  for (const auto rank : stands_.ask(std::move(question))) to.push_back(group_.job_rank(rank));
  member_->control().publish(sent, to);
}

}  // namespace ccoll
