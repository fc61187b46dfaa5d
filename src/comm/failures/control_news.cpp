// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/control_news.hpp"

#include <fmt/format.h>

#include "comm/api/implementation.hpp"

namespace ccoll {

void ControlNews::failed(std::uint64_t communicator, const Failure& failure) {
  const bool to_all = communicator == kEveryCommunicator;
  if (to_all && failure.culprit && !communicator_.self().group().rank_of(*failure.culprit)) return;
  communicator_.failures().hear(failure);
  communicator_.dumps().request(std::string(Record::kFailureDump));
}

void ControlNews::left(std::uint32_t rank) {
  const Failure why{ErrorKind::peer_lost, fmt::format("rank {} has left", rank), rank};
  communicator_.failures().depart(rank, Departure::left, why);
}

void ControlNews::lost(std::uint32_t rank, const Failure& failure) {
  const auto& self = communicator_.self();
  // Devices that make calls wait for one another, and no link tells them of a loss.
  const bool ends_all = rank == self.job_rank() || self.options().device.ordinal != kHost;
  if (ends_all) return failed(kEveryCommunicator, failure);
  communicator_.failures().depart(rank, Departure::lost, failure);
}

std::optional<Failure> ControlNews::compare(std::uint32_t peer, const Waiting& waiting) {
  return communicator_.comparison().compare(peer, waiting);
}

bool ControlNews::has_begun(std::uint64_t sequence) {
  return communicator_.record().history().calls() > sequence;
}

void ControlNews::in_cycle(std::uint64_t sequence, const std::string& cycle) {
  communicator_.waits().stands().note_cycle(sequence, cycle);
}

}  // namespace ccoll
