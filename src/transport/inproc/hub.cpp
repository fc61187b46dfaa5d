// SPDX-License-Identifier: Apache-2.0
#include "transport/inproc/hub.hpp"

#include <map>
#include <mutex>
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
  ProcessMutex mutex;
  std::set<Resident> residents;                               // guarded by mutex
  std::map<LinkId, Waiting> waiting;                          // guarded by mutex
  std::map<ReceiverId, std::shared_ptr<Arrivals>> listening;  // guarded by mutex
  Latest<ReceiverId, kForgotten> forgotten;                   // guarded by mutex
};

Table& table() { return Runtime::one<Table>(); }

/// Tells the sender that nobody will read it.
void drop(Fifo& fifo) {
  fifo.receiver_gone.store(true);
  fifo.sender.ring();
}

}  // namespace

Residence::Residence(const PeerAddress& rank) : rank_(resident(rank)) {
  std::lock_guard lock(table().mutex);
  table().residents.insert(rank_);
}

Residence::~Residence() {
  std::lock_guard lock(table().mutex);
  table().residents.erase(rank_);
  std::erase_if(table().waiting, [&](const auto& entry) {
    const bool to_it = entry.second.receiver == rank_;
    if (to_it) drop(*entry.second.fifo);
    return to_it;
  });
}

std::shared_ptr<Fifo> meet(const LinkId& id, End end, const Resident& receiver_rank) {
  std::shared_ptr<Arrivals> listener;
  std::shared_ptr<Fifo> fifo;
  {
    std::lock_guard lock(table().mutex);
    auto& waiting = table().waiting;
    if (const auto found = waiting.find(id); found != waiting.end()) {
      fifo = std::move(found->second.fifo);
      waiting.erase(found);
      return fifo;
    }
    fifo = std::make_shared<Fifo>();
    const ReceiverId receiver{id.communicator, id.to};
    const bool is_resident = receiver_rank.second == 0 || table().residents.contains(receiver_rank);
    const bool takes_part = is_resident && !table().forgotten.contains(receiver);
    if (end == End::sender && !takes_part) {
      fifo->receiver_gone.store(true);
      return fifo;
    }
    waiting.emplace(id, Waiting{fifo, receiver_rank});
    const auto found = table().listening.find(receiver);
    if (end == End::receiver || found == table().listening.end()) return fifo;
    listener = found->second;
  }
  if (listener->concern(id)) listener->add(id.from);
  return fifo;
}

void part(const LinkId& id, const std::shared_ptr<Fifo>& fifo) {
  std::lock_guard lock(table().mutex);
  auto& waiting = table().waiting;
  const auto found = waiting.find(id);
  // A sender may leave before its receiver has come; its slices must still be found here.
  const bool unread = fifo->head.load() != fifo->tail.load() && !fifo->receiver_gone;
  if (found != waiting.end() && found->second.fifo == fifo && !unread) waiting.erase(found);
}

void listen(std::shared_ptr<Arrivals> arrivals) {
  std::lock_guard lock(table().mutex);
  const ReceiverId part{arrivals->communicator(), arrivals->to()};
  const auto [begin, end] = links_of(part.first, table().waiting);
  for (auto each = begin; each != end; ++each) {
    const auto& [id, waiting] = *each;
    if (arrivals->concern(id) && !waiting.fifo->receiver.hung()) arrivals->add(id.from);
  }
  table().listening[part] = std::move(arrivals);
}

void forget(std::uint64_t communicator, std::uint32_t to) {
  const ReceiverId part{communicator, to};
  std::lock_guard lock(table().mutex);
  table().listening.erase(part);
  const auto [begin, end] = links_of(communicator, table().waiting);
  for (auto each = begin; each != end;) {
    if (each->first.to != to) {
      ++each;
      continue;
    }
    drop(*each->second.fifo);
    each = table().waiting.erase(each);
  }
  table().forgotten.add(part);
}

}  // namespace ccoll::inproc
