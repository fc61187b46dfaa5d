// SPDX-License-Identifier: Apache-2.0
#include "transport/inproc/hub.hpp"

#include <map>
#include <mutex>

namespace ccoll::inproc {
namespace {

struct Table {
  std::mutex mutex;
  std::map<LinkId, std::shared_ptr<Fifo>> waiting;  // guarded by mutex
};

Table& table() {
  // Never destroyed: communicators may end later at exit.
  static auto& instance = *new Table;
  return instance;
}

}  // namespace

std::shared_ptr<Fifo> meet(const LinkId& id) {
  std::lock_guard lock(table().mutex);
  auto& waiting = table().waiting;
  if (const auto found = waiting.find(id); found != waiting.end()) {
    auto fifo = std::move(found->second);
    waiting.erase(found);
    return fifo;
  }
  return waiting.emplace(id, std::make_shared<Fifo>()).first->second;
}

void part(const LinkId& id, const std::shared_ptr<Fifo>& fifo) {
  std::lock_guard lock(table().mutex);
  auto& waiting = table().waiting;
  const auto found = waiting.find(id);
  // A sender may leave before its receiver has come; what it sent must still be found here.
  const bool unread = fifo->head.load() != fifo->tail.load() && !fifo->receiver_gone;
  if (found != waiting.end() && found->second == fifo && !unread) waiting.erase(found);
}

}  // namespace ccoll::inproc
