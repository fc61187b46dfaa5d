// SPDX-License-Identifier: Apache-2.0
#include "transport/inproc/hub.hpp"

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace ccoll::inproc {
namespace {

/// One rank's part of a communicator.
using Part = std::pair<std::uint64_t, std::uint32_t>;

/// Parts that have ended, remembered for senders that are yet to come.
constexpr std::size_t kForgotten = 16 << 10;

struct Table {
  std::mutex mutex;
  std::map<LinkId, std::shared_ptr<Fifo>> waiting;      // guarded by mutex
  std::map<Part, std::shared_ptr<Arrivals>> listening;  // guarded by mutex
  std::set<Part> forgotten;                             // guarded by mutex
  std::deque<Part> forgotten_in_order;                  // guarded by mutex
};

Table& table() {
  // Never destroyed: communicators may end later at exit.
  static auto& instance = *new Table;
  return instance;
}

}  // namespace

std::shared_ptr<Fifo> meet(const LinkId& id, End end) {
  std::shared_ptr<Arrivals> listener;
  std::shared_ptr<Fifo> fifo;
  {
    std::lock_guard lock(table().mutex);
    auto& waiting = table().waiting;
    if (const auto found = waiting.find(id); found != waiting.end()) {
      fifo = std::move(found->second);
      waiting.erase(found);
      return fifo;
    }
    fifo = std::make_shared<Fifo>();
    const Part receiver{id.communicator, id.to};
    if (end == End::sender && table().forgotten.contains(receiver)) {
      fifo->receiver_gone.store(true);
      return fifo;
    }
    waiting.emplace(id, fifo);
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
  // A sender may leave before its receiver has come; what it sent must still be found here.
  const bool unread = fifo->head.load() != fifo->tail.load() && !fifo->receiver_gone;
  if (found != waiting.end() && found->second == fifo && !unread) waiting.erase(found);
}

void listen(std::shared_ptr<Arrivals> arrivals) {
  std::lock_guard lock(table().mutex);
  const Part part{arrivals->communicator(), arrivals->to()};
  const auto [begin, end] = links_of(part.first, table().waiting);
  for (auto each = begin; each != end; ++each) {
    const auto& [id, fifo] = *each;
    if (arrivals->concern(id) && !fifo->receiver.hung()) arrivals->add(id.from);
  }
  table().listening[part] = std::move(arrivals);
}

void forget(std::uint64_t communicator, std::uint32_t to) {
  const Part part{communicator, to};
  std::lock_guard lock(table().mutex);
  table().listening.erase(part);
  const auto [begin, end] = links_of(communicator, table().waiting);
  for (auto each = begin; each != end;) {
    const auto& [id, fifo] = *each;
    if (id.to != to) {
      ++each;
      continue;
    }
    fifo->receiver_gone.store(true);
    fifo->sender.ring();
    each = table().waiting.erase(each);
  }
  if (!table().forgotten.insert(part).second) return;
  table().forgotten_in_order.push_back(part);
  if (table().forgotten_in_order.size() <= kForgotten) return;
  table().forgotten.erase(table().forgotten_in_order.front());
  table().forgotten_in_order.pop_front();
}

}  // namespace ccoll::inproc
