// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/control_news.hpp"

#include <fmt/format.h>

#include "core/text.hpp"

namespace ccoll {

void ControlNews::failed(std::uint64_t communicator, const Failure& failure) {
  const bool to_all = communicator == kEveryCommunicator;
  if (to_all && failure.culprit && !self_.group().rank_of(*failure.culprit)) return;
  tell_.failures.hear(failure);
  tell_.dumps.request(std::string(Record::kFailureDump));
}

void ControlNews::left(std::uint32_t rank) {
  const Failure why{ErrorKind::peer_lost, fmt::format("rank {} has left", rank), rank};
  tell_.failures.depart(rank, Departure::left, why);
}

void ControlNews::lost(std::uint32_t rank, const Failure& failure) {
  // Devices that make calls wait for one another, and no link tells them of a loss.
  const bool ends_all = rank == self_.job_rank() || self_.options().device.ordinal != kHost;
  if (ends_all) return failed(kEveryCommunicator, failure);
  tell_.failures.depart(rank, Departure::lost, failure);
}

std::optional<Failure> ControlNews::compare(std::uint32_t peer, const Waiting& waiting) {
  const auto from = self_.group().rank_of(peer);
  if (!from) return std::nullopt;
  switch (waiting.signature.kind) {
    case kAsksStand:
      tell_.waits.answer(peer, waiting.sequence, progress_.now());
      return std::nullopt;
    case kTellsStand:
      tell_.waits.stands().take_answer(*from, waiting.sequence, waiting.note);
      return std::nullopt;
    case kSubgroup:
      // Without a list it is a subgroup's own barrier, a call like any other.
      if (waiting.note.empty()) break;
      compare_groups(*from, waiting);
      return std::nullopt;
    case kAsksClosed:
      return std::nullopt;
    case kHasClosed:
      tell_.failures.peer_left(
          *from,
          {ErrorKind::peer_lost, fmt::format("rank {} has left {}", peer, self_.name()), peer});
      return std::nullopt;
    default:
      break;
  }
  return tell_.comparison.compare(*from, waiting);
}

void ControlNews::compare_groups(Rank peer, const Waiting& announced) const {
  tell_.births.compare(peer, announced, [&](const Making& mine, std::uint64_t theirs) {
    auto& control = self_.control();
    // All may have heard that it failed: that flood goes ahead of this rank's own failure's.
    if (control.has_failed(theirs)) return;
    const Failure failure{
        ErrorKind::mismatch,
        fmt::format("ranks make different groups of {}: rank {} one of {}, rank {} one of {}; "
                    "neither can be made of it any more: make both of a duplicate",
                    self_.name(), self_.rank(), list_ranks(mine.ranks), peer, announced.note),
        self_.group().job_rank(peer)};
    control.flood(theirs, failure);
    control.flood(mine.id, failure);
  });
}

void ControlNews::in_cycle(std::uint64_t sequence, const std::string& cycle) {
  tell_.waits.stands().note_cycle(sequence, cycle);
}

}  // namespace ccoll
