// SPDX-License-Identifier: Apache-2.0
#include "transport/inproc/hub.hpp"

#include <map>
#include <set>
#include <utility>

#include "core/latest.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll::inproc {
namespace {

/// One rank's part of a communicator.
using ReceiverId = std::pair<std::uint64_t, std::uint32_t>;

/// Parts that have ended, remembered for late senders.
constexpr std::size_t kForgotten = 4 << 10;

/// A link that one end has opened.
struct Waiting {
  std::shared_ptr<Fifo> fifo;
  Resident receiver;
};

struct Table {
  std::set<Resident> residents;
  std::map<LinkId, Waiting> waiting;
  std::map<ReceiverId, std::shared_ptr<Arrivals>> listening;
  Latest<ReceiverId, kForgotten> forgotten;
};

Guarded<Table, ProcessMutex>& table_of_process() {
  return Runtime::one<Guarded<Table, ProcessMutex>>();
}

/// Tells the sender that nobody will read it.
void drop(Fifo& fifo) {
  fifo.receiver_gone.store(true);
  fifo.sender.ring();
}

}  // namespace

Residence::Residence(const PeerAddress& rank) : rank_(resident(rank)) {
  table_of_process().lock()->residents.insert(rank_);
}

Residence::~Residence() {
  const auto table = table_of_process().lock();
  table->residents.erase(rank_);
  std::erase_if(table->waiting, [&](const auto& entry) {
    const bool to_it = entry.second.receiver == rank_;
    if (to_it) drop(*entry.second.fifo);
    return to_it;
  });
}

std::shared_ptr<Fifo> meet(const LinkId& id, End end, const Resident& receiver_rank) {
  std::shared_ptr<Arrivals> listener;
  std::shared_ptr<Fifo> fifo;
  {
    const auto table = table_of_process().lock();
    auto& waiting = table->waiting;
    if (const auto found = waiting.find(id); found != waiting.end()) {
      fifo = std::move(found->second.fifo);
      waiting.erase(found);
      return fifo;
    }
    fifo = std::make_shared<Fifo>();
    const ReceiverId receiver{id.communicator, id.to};
    const bool is_resident = receiver_rank.second == 0 || table->residents.contains(receiver_rank);
    const bool takes_part = is_resident && !table->forgotten.contains(receiver);
    if (end == End::sender && !takes_part) {
      fifo->receiver_gone.store(true);
      return fifo;
    }
    waiting.emplace(id, Waiting{fifo, receiver_rank});
    const auto found = table->listening.find(receiver);
    if (end == End::receiver || found == table->listening.end()) return fifo;
    listener = found->second;
  }
  if (listener->concern(id)) listener->add(id.from);
  return fifo;
}

void part(const LinkId& id, const std::shared_ptr<Fifo>& fifo) {
  const auto table = table_of_process().lock();
  auto& waiting = table->waiting;
  const auto found = waiting.find(id);
  // A sender may leave before its receiver has come; its slices must still be found here.
  const bool unread = fifo->head.load() != fifo->tail.load() && !fifo->receiver_gone;
  if (found != waiting.end() && found->second.fifo == fifo && !unread) waiting.erase(found);
}

void listen(std::shared_ptr<Arrivals> arrivals) {
  const auto table = table_of_process().lock();
  const ReceiverId part{arrivals->communicator(), arrivals->to()};
  const auto [begin, end] = links_of(part.first, table->waiting);
  for (auto each = begin; each != end; ++each) {
    const auto& [id, waiting] = *each;
    if (arrivals->concern(id) && !waiting.fifo->receiver.hung()) arrivals->add(id.from);
  }
  table->listening[part] = std::move(arrivals);
}

void forget(std::uint64_t communicator, std::uint32_t to) {
  const ReceiverId part{communicator, to};
  const auto table = table_of_process().lock();
  table->listening.erase(part);
  const auto [begin, end] = links_of(communicator, table->waiting);
  for (auto each = begin; each != end;) {
    if (each->first.to != to) {
      ++each;
      continue;
    }
    drop(*each->second.fifo);
    each = table->waiting.erase(each);
  }
  table->forgotten.add(part);
}

}  // namespace ccoll::inproc
