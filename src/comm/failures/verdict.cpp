// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/verdict.hpp"

#include <utility>

namespace ccoll {

void Verdict::break_with(Owned /*owned*/, const Failure& failure) {
  if (broken_) return;
  broken_ = failure;
  shared_.with([&](Shared& shared) { shared.broken = failure; });
}

bool Verdict::suspect(Owned /*owned*/, Failure failure, Clock::time_point until) {
  if (suspicion_) return false;
  suspicion_ = std::move(failure);
  suspected_until_ = until;
  return true;
}

bool Verdict::suspect(Owned owned, DifferentCalls different, std::uint32_t peer,
                      Clock::time_point until) {
  if (!suspect(owned, {ErrorKind::mismatch, different.text(), peer}, until)) return false;
  different_ = std::move(different);
  return true;
}

bool Verdict::take_label(Owned /*owned*/) {
  if (!different_) return false;
  return shared_.with([&](const Shared& shared) {
    auto& theirs = different_->theirs;
    const auto& label = shared.label;
    if (!label || label->rank != theirs.rank || label->sequence != theirs.sequence) return false;
    theirs.note = label->note;
    suspicion_->message = different_->text();
    return true;
  });
}

bool Verdict::hear(const Failure& failure) {
  return shared_.with([&](Shared& shared) {
    if (shared.news) return false;
    shared.news = failure;
    // With the lock: who sees the failure must not see a later call end well.
    notify();
    return true;
  });
}

std::optional<Failure> Verdict::heard() const {
  return shared_.with([](const Shared& shared) { return shared.news; });
}

std::optional<Failure> Verdict::heard_without_culprit() const {
  return shared_.with([](const Shared& shared) {
    return shared.news && !shared.news->culprit ? shared.news : std::nullopt;
  });
}

std::optional<Failure> Verdict::first() const {
  return shared_.with(
      [](const Shared& shared) { return shared.broken ? shared.broken : shared.news; });
}

void Verdict::hear_label(MadeCall theirs) {
  shared_.with([&](Shared& shared) { shared.label = std::move(theirs); });
}

}  // namespace ccoll
